"""Messages of ``open_inference.proto``; the ``.pyi`` next to this file has their types."""

from zerofleet.rpc.schema import file_symbols

globals().update(file_symbols("open_inference.proto"))
