"""Columns of many searches at once, in Postgres' binary form.

The rows of a column are sent as one string of bytes, and numpy decodes them. Parsing numbers from
text would cost more than all the rest, and a loop over the rows would cost more than that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerofleet.errors import RecordRejectedError
from zerofleet.records import COLUMNS, DTYPES

# make_partitions locks positions_default exclusively while it moves rows to a new partition.
# Without a lock, a query of games could be planned before such a move commits and run after it. The
# rows would be missing from the table it reads, and the game would seem deleted. The lock is a
# separate statement, so that the query is planned and takes its snapshot with the locks held.
# Positions come first, as in drop_partition.
KEEP_ROWS = "LOCK TABLE ONLY positions, ONLY positions_default IN ACCESS SHARE MODE"
"""Statement that keeps the searches of stored games where they are, until the transaction ends."""

_ARRAYS = {column.name for column in COLUMNS if column.entry != "ply"}
_SEND = {
    "int8": "int2send",  # Postgres has no smaller type
    "int16": "int2send",
    "int32": "int4send",
    "float32": "float4send",
    "bool": "boolsend",
}
# size of array_send's header: dimensions, flags, element type, length, lower bound
_HEADER_BYTES = 20
_LENGTH_BYTES = 4  # before each element


def send_expression(name: str) -> str:
    """Return the SQL expression that aggregates a column into one string of bytes.

    ``ply_values`` or ``array_elements`` decodes it.
    """
    if name in _ARRAYS:
        # Null: no array, the visit counts are the target.
        return f"coalesce(string_agg(array_send({name}), ''), '')"
    return f"string_agg({_SEND[DTYPES[name].name]}({name}), '')"


def ply_values(dtype: np.dtype[Any], column: bytes | memoryview) -> NDArray[Any]:
    """Return the values ``[plies]`` of a column with one entry for each ply."""
    width = 2 if dtype.name == "int8" else dtype.itemsize
    return np.frombuffer(column, f">{dtype.kind}{width}").astype(dtype)


def array_elements(
    name: str, column: bytes | memoryview, lengths: NDArray[np.int64]
) -> NDArray[Any]:
    """Return the elements of a column's arrays, one array after the other.

    Each array is a header, then for each element its length in bytes and its value. The headers and
    the whole length are checked, because an array with another length than its ply's would shift
    everything after it.

    Args:
        name: the column.
        column: the arrays as ``send_expression`` aggregates them.
        lengths: [plies] elements of each array.

    Raises:
        RecordRejectedError: an array is not flat, holds a null, or has another length.
    """
    dtype = DTYPES[name]
    size = dtype.itemsize
    words = np.frombuffer(column, f">i{size}")  # also for floats: the headers are integers
    stride = (_LENGTH_BYTES + size) // size
    head = _HEADER_BYTES // size
    ends = np.cumsum(lengths)
    if len(words) != len(lengths) * head + int(lengths.sum()) * stride:
        raise RecordRejectedError(f"{name} does not fit legal_actions")
    headers = (ends - lengths) * stride + np.arange(len(lengths)) * head
    per_int = 4 // size  # words in each number of a header
    low = headers[:, None] + np.arange(1, 6) * per_int - 1  # lower ends
    dimensions, flags, _, entries, lower = words[low].T.astype(np.int64)
    is_plain = (dimensions == 1) & (flags == 0) & (lower == 1)
    if not (is_plain & (entries == (lengths if size == 4 else lengths.astype(np.int16)))).all():
        raise RecordRejectedError(f"{name} does not fit legal_actions, or is no plain array")
    before = np.repeat(np.arange(1, len(lengths) + 1), lengths)  # headers up to each element
    each = np.arange(len(before), dtype=np.int64)
    elements = words[before * head + each * stride + _LENGTH_BYTES // size]
    return elements.view(dtype.newbyteorder(">")).astype(dtype)
