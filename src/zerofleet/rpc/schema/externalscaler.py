"""Messages of ``externalscaler.proto``; the ``.pyi`` beside this file has their types."""

from zerofleet.rpc.schema import file_symbols

globals().update(file_symbols("externalscaler.proto"))
