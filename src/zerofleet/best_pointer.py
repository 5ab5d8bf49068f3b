"""The pointer to the best model, in Redis: a copy of the newest promotion.

It may be wiped at any time: ``reconcile`` rebuilds it from Postgres. It never moves back along the
chain of promotions, in whatever order processes write it. A pointer outside the chain, for example
from an older run of the same name, is replaced.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, cast

import redis
import structlog

from zerofleet.database import Promotion, PromotionChain
from zerofleet.errors import StoreUnavailableError
from zerofleet.redis_connection import UP, RedisCaller, open_redis

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

_ASK_SECONDS = 10.0
_NO_HASH = {b"": b""}  # stands for a value of another type, which has no fields


class _PointerCommands(Protocol):
    """The Redis commands that the pointer needs."""

    def hgetall(self, name: str) -> dict[bytes, bytes]: ...
    def eval(self, script: str, numkeys: int, *keys_and_args: str | bytes) -> int: ...
    def close(self) -> None: ...


class BestPointer(RedisCaller):
    """The pointer of one run.

    Args:
        redis_url: see ``open_redis``.
        clock: seconds that never go back.

    Raises:
        ConfigError: the URL is not a Redis URL.
    """

    def __init__(
        self, redis_url: str, run: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        client, place = open_redis(redis_url)
        super().__init__(place)
        self._redis = cast("_PointerCommands", client)
        self._key = f"zerofleet:{run}:best"
        self._run = run
        self._clock = clock
        self._pointed: Promotion | None = None  # at the last call
        self._head: Promotion | None = None  # newest promotion in Postgres, at the last query
        self._ask_at = clock()

    def get(self) -> Promotion | None:
        """Return the promotion in the pointer; None before the first, or if Redis was wiped.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        return _parsed(self._fields())

    def newest(self, database: PromotionChain) -> Promotion | None:
        """Return the newest promotion, by Redis and, where needed, by Postgres.

        Postgres is queried if Redis is down or empty, whenever the pointer has changed, and every
        ten seconds: a Redis that refuses writes would answer with an old pointer indefinitely. The
        pointer may belong to another chain until ``reconcile`` replaces it.

        Returns:
            None before the first promotion.

        Raises:
            StoreUnavailableError: neither store answers.
        """
        try:
            pointed = self.get()
        except StoreUnavailableError:
            pointed = None
        now = self._clock()
        if pointed is None or pointed != self._pointed or now >= self._ask_at:
            self._ask_at = now + _ASK_SECONDS
            try:
                self._head = database.promotion_head(self._run)
            except StoreUnavailableError:
                if pointed is None:
                    raise
        self._pointed, head = pointed, self._head
        if pointed is None or head is None:
            return pointed or head
        return pointed if pointed.seq > head.seq else head

    def set_if_newer(self, best: Promotion) -> bool:
        """Move the pointer forward; return False if it was already there or further.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        with self._asking():
            moved = self._redis.eval(
                _SET_IF_NEWER, 1, self._key, str(best.seq), str(best.version), best.sha256
            )
        return moved == 1

    def reconcile(self, database: PromotionChain) -> Promotion | None:
        """Bring the pointer in line with Postgres; one that contradicts it is replaced.

        Returns:
            The best model according to Postgres; None before the first promotion.

        Raises:
            StoreUnavailableError: Postgres or Redis does not answer.
        """
        # In this order: a promotion is in Postgres before the pointer names it. A pointer that was
        # read first and is ahead of the newest promotion, or differs from it, is not of this chain.
        fields = self._fields()
        self.state = UP
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
        with self._asking():
            try:
                return self._redis.hgetall(self._key)
            except redis.ResponseError as error:
                if not str(error).startswith("WRONGTYPE"):
                    raise
                return _NO_HASH

    def _replace(self, seen: dict[bytes, bytes], best: Promotion | None) -> bool:
        """Write another pointer, or none, unless the pointer has changed from ``seen``."""
        old = [seen.get(name, b"") for name in (b"seq", b"version", b"sha256")]
        new = [] if best is None else [str(best.seq), str(best.version), best.sha256]
        with self._asking():
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
