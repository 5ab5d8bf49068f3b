"""Messages of ``externalscaler.proto``; the ``.pyi`` next to this file has their types."""

from zerofleet.rpc.schema import file_symbols

globals().update(file_symbols("externalscaler.proto"))
