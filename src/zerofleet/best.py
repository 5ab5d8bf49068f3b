"""The pointer to the best model, in Redis: a copy of the end of the chain of promotions.

It may be wiped at any time, for ``reconcile`` rebuilds it from Postgres; and it never moves back,
whoever writes it in whatever order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol, cast

import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from zerofleet.database import Database
from zerofleet.errors import ConfigError, StoreUnavailableError

_log = structlog.get_logger()

_SECONDS = 5.0
_SET_IF_NEWER = """
local seq = redis.call('HGET', KEYS[1], 'seq')
if seq and tonumber(seq) >= tonumber(ARGV[1]) then
    return 0
end
redis.call('HSET', KEYS[1], 'seq', ARGV[1], 'version', ARGV[2], 'sha256', ARGV[3])
return 1
"""


@dataclass(frozen=True, slots=True)
class Best:
    """The best model by its place in the chain of promotions."""

    seq: int
    version: int
    sha256: str


class _Commands(Protocol):
    """What is used of Redis."""

    def hgetall(self, name: str) -> dict[bytes, bytes]: ...
    def eval(self, script: str, numkeys: int, *keys_and_args: str) -> int: ...
    def close(self) -> None: ...


class BestPointer:
    """The pointer of one run.

    Args:
        redis_url: ``redis://host:port/db``; passwords in it are never shown.
        run: name of the run.

    Raises:
        ConfigError: the URL is not one of Redis.
    """

    def __init__(self, redis_url: str, run: str) -> None:
        try:
            client = redis.Redis.from_url(  # pyright: ignore[reportUnknownMemberType]
                redis_url,
                socket_timeout=_SECONDS,
                socket_connect_timeout=_SECONDS,
                retry=Retry(NoBackoff(), 1),  # once, for a connection that a restart has broken
            )
        except ValueError as error:
            raise ConfigError("the Redis URL is not one: write redis://host:6379/0") from error
        where = client.connection_pool.connection_kwargs
        self._place = f"{where.get('host', 'localhost')}:{where.get('port', 6379)}"
        self._redis = cast("_Commands", client)
        self._key = f"zerofleet:{run}:best"
        self._run = run

    def get(self) -> Best | None:
        """Where the pointer points; None before the first promotion, or when Redis was wiped.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        with self._our_errors():
            fields = self._redis.hgetall(self._key)
        try:
            return Best(
                int(fields[b"seq"]), int(fields[b"version"]), fields[b"sha256"].decode("ascii")
            )
        except (KeyError, ValueError):
            return None

    def set_if_newer(self, best: Best) -> bool:
        """Move the pointer forward; False when it was there already, or further.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        with self._our_errors():
            moved = self._redis.eval(
                _SET_IF_NEWER, 1, self._key, str(best.seq), str(best.version), best.sha256
            )
        return moved == 1

    def reconcile(self, database: Database) -> Best | None:
        """Bring the pointer up to the record.

        Returns:
            The best model by the record; None before the first promotion.

        Raises:
            StoreUnavailableError: Postgres or Redis does not answer.
        """
        head = database.promotion_head(self._run)
        if head is None:
            return None
        best = Best(head.seq, head.version, head.sha256)
        if self.set_if_newer(best):
            _log.info("pointer_moved", run=self._run, seq=best.seq, version=best.version)
        return best

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()

    @contextlib.contextmanager
    def _our_errors(self) -> Generator[None]:
        try:
            yield
        except redis.RedisError as error:
            raise StoreUnavailableError(
                f"Redis at {self._place} does not answer: {error}"
            ) from error
