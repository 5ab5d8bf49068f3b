"""The Universal Chess Interface (UCI): an engine for chess programs, and a client of engines."""
