"""The pointer to the best model, in Redis: a copy of the end of the chain of promotions.

It may be wiped at any time: ``reconcile`` rebuilds it from Postgres. It never moves back along the
chain, in whatever order processes write it. A pointer that is no part of the chain (left by an
older run of the same name, say) is replaced.
"""

from __future__ import annotations

from typing import Protocol, cast

import redis
import structlog

from zerofleet.database import Database, Promotion
from zerofleet.errors import StoreUnavailableError
from zerofleet.redis_connection import open_redis, our_errors

_log = structlog.get_logger()

_SET_IF_NEWER = """
local seq = redis.pcall('HGET', KEYS[1], 'seq')
if type(seq) == 'table' then  -- an error: it is no hash, and not ours
    return 0
end
if seq and tonumber(seq) >= tonumber(ARGV[1]) then
    return 0
end
redis.call('HSET', KEYS[1], 'seq', ARGV[1], 'version', ARGV[2], 'sha256', ARGV[3])
return 1
"""
_REPLACE = """
local now = redis.pcall('HMGET', KEYS[1], 'seq', 'version', 'sha256')
for i = 1, 3 do
    if not now.err and (now[i] or '') ~= ARGV[i] then
        return 0
    end
end
redis.call('DEL', KEYS[1])
if ARGV[4] then
    redis.call('HSET', KEYS[1], 'seq', ARGV[4], 'version', ARGV[5], 'sha256', ARGV[6])
end
return 1
"""

_NO_HASH = {b"": b""}  # stands for the fields of a value of another type, which has none


class _PointerCommands(Protocol):
    """What is used of Redis."""

    def hgetall(self, name: str) -> dict[bytes, bytes]: ...
    def eval(self, script: str, numkeys: int, *keys_and_args: str | bytes) -> int: ...
    def close(self) -> None: ...


class BestPointer:
    """The pointer of one run.

    Args:
        redis_url: as ``open_redis`` takes it.
        run: name of the run.

    Raises:
        ConfigError: the URL is not one of Redis.
    """

    def __init__(self, redis_url: str, run: str) -> None:
        client, self._place = open_redis(redis_url)
        self._redis = cast("_PointerCommands", client)
        self._key = f"zerofleet:{run}:best"
        self._run = run

    def get(self) -> Promotion | None:
        """Where the pointer points; None before the first promotion, or when Redis was wiped.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        return _parsed(self._fields())

    def newest(self, database: Database) -> Promotion | None:
        """The newest promotion: by Redis, or by Postgres where Redis is away or empty.

        The pointer may be that of another chain until ``reconcile`` replaces it.

        Returns:
            None before the first promotion.

        Raises:
            StoreUnavailableError: neither store answers.
        """
        try:
            pointed = self.get()
        except StoreUnavailableError:
            pointed = None
        return pointed or database.promotion_head(self._run)

    def set_if_newer(self, best: Promotion) -> bool:
        """Move the pointer forward; False when it was there already, or further.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        with our_errors(self._place):
            moved = self._redis.eval(
                _SET_IF_NEWER, 1, self._key, str(best.seq), str(best.version), best.sha256
            )
        return moved == 1

    def reconcile(self, database: Database) -> Promotion | None:
        """Bring the pointer up to the record; one that contradicts the record is replaced.

        Returns:
            The best model by the record; None before the first promotion.

        Raises:
            StoreUnavailableError: Postgres or Redis does not answer.
        """
        # In this order: a promotion is in Postgres before the pointer names it, so a pointer that
        # was read first and is ahead of the head, or beside it, names no promotion of this chain.
        fields = self._fields()
        best = database.promotion_head(self._run)
        pointed = _parsed(fields)
        if fields and (
            best is None or pointed is None or (pointed.seq >= best.seq and pointed != best)
        ):
            if self._replace(fields, best):
                was = pointed or ("no hash" if fields is _NO_HASH else "no promotion")
                _log.warning("foreign_pointer_replaced", run=self._run, was=was, now=best)
        elif best is not None and self.set_if_newer(best):
            _log.info("pointer_moved", run=self._run, seq=best.seq, version=best.version)
        return best

    def _fields(self) -> dict[bytes, bytes]:
        with our_errors(self._place):
            try:
                return self._redis.hgetall(self._key)
            except redis.ResponseError as error:
                if not str(error).startswith("WRONGTYPE"):
                    raise
                return _NO_HASH

    def _replace(self, seen: dict[bytes, bytes], best: Promotion | None) -> bool:
        """Write another pointer, or none, unless it is no more what was seen."""
        old = [seen.get(name, b"") for name in (b"seq", b"version", b"sha256")]
        new = [] if best is None else [str(best.seq), str(best.version), best.sha256]
        with our_errors(self._place):
            return self._redis.eval(_REPLACE, 1, self._key, *old, *new) == 1

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()


def _parsed(fields: dict[bytes, bytes]) -> Promotion | None:
    try:
        return Promotion(
            int(fields[b"seq"]), int(fields[b"version"]), fields[b"sha256"].decode("ascii")
        )
    except (KeyError, ValueError):
        return None
