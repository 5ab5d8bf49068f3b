"""The fields of a protobuf message, read without its schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from zerofleet.errors import IncompatibleModelError

_KEYS = 1 << 32  # of fields; others cut a larger one to 32 bits, and would read another field


class Field(NamedTuple):
    """One field; those of fixed width come with no content."""

    number: int
    value: int  # of a varint
    payload: memoryview  # of a length-delimited field


def fields(message: memoryview) -> Iterator[Field]:
    """Yield the fields of one message in order.

    Raises:
        IncompatibleModelError: this is no message, or it is cut off.
    """
    position, end, empty = 0, len(message), message[:0]
    while position < end:
        key, position = varint(message, position)
        if key >= _KEYS:
            raise IncompatibleModelError(
                "the file is not an ONNX model: a field's key is too large"
            )
        number, wire_type = key >> 3, key & 7
        if wire_type == 0:
            value, position = varint(message, position)
            yield Field(number, value, empty)
            continue
        if wire_type == 2:
            size, position = varint(message, position)
        else:
            size = {1: 8, 5: 4}.get(wire_type, end)
        if position + size > end:
            raise IncompatibleModelError("the file is not an ONNX model, or is cut off")
        payload = message[position : position + size] if wire_type == 2 else empty
        yield Field(number, 0, payload)
        position += size


def varint(message: memoryview, position: int) -> tuple[int, int]:
    """Return the number that begins at a position, and the position after it.

    Raises:
        IncompatibleModelError: it is cut off or too long.
    """
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(message):
            break
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise IncompatibleModelError("the file is not an ONNX model, or is cut off")
