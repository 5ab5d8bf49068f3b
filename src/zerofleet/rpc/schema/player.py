"""Messages of ``zerofleet/v1/player.proto``; the ``.pyi`` next to this file has their types."""

from zerofleet.rpc.schema import file_symbols

globals().update(file_symbols("zerofleet/v1/player.proto"))
