"""The Go Text Protocol, version 2: an engine for boards such as Sabaki, and a client of engines."""
