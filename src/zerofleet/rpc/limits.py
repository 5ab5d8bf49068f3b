"""How much load one server takes, and how much of it one caller may cause."""

from __future__ import annotations

from dataclasses import dataclass

_MAX_CALLS = 16_384


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server; a call beyond one is refused with RESOURCE_EXHAUSTED.

    Unread answers refuse no call: the streams that have some are not read from.
    """

    calls: int = _MAX_CALLS
    """Calls open at once over all callers, streams included."""
    calls_of_one: int = _MAX_CALLS * 3 // 4
    """Of these the most of one caller: of one token, else certificate, else address. A token is
    often a whole fleet's, with a stream for each worker; the rest is room beside it."""
    calls_of_connection: int = 1024
    """Calls open at once on one connection. Beyond, HTTP/2 itself refuses: a client waits, or sees
    UNAVAILABLE, which ours try again."""
    unsent_bytes: int = 128 << 20
    """That answers hold, over all streams, while their clients do not read. Beyond, a stream is
    read from only when all it has asked is answered and sent, so one answer of each stream may come
    on top."""
    metadata_bytes: int = 16 * 1024
    """Of all metadata of one call."""
    call_seconds: float = 60.0
    """The deadline of a unary call that comes without one. Streams end with their connection."""
