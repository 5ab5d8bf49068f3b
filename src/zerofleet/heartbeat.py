"""Signs of life in Redis: who works, how far it is, what it waits for.

A heartbeat carries progress, because a process can be alive and stuck. It disappears by itself when
it is not renewed; nothing is decided by it that a lease in Postgres does not decide.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, cast

from pydantic import TypeAdapter, ValidationError

from zerofleet.redis_connection import open_redis, our_errors

_SCAN_COUNT = 1000
_TRAINER = "trainer"


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The last that one process said of itself."""

    service: str
    worker: str
    progress: int
    """Grows with the work done; one that stands still while nothing is waited for is stuck."""
    waiting_for: str
    """Empty while it works."""
    figures: Mapping[str, float]


_HEARTBEAT = TypeAdapter(Heartbeat)


class _Commands(Protocol):
    """What is used of Redis."""

    def set(self, name: str, value: str, *, px: int) -> object: ...
    def scan_iter(self, match: str, count: int) -> Iterator[bytes]: ...
    def mget(self, keys: Sequence[bytes | str]) -> list[bytes | None]: ...
    def close(self) -> None: ...


class Heartbeats:
    """The heartbeats of one run.

    Args:
        redis_url: as ``open_redis`` takes it.
        run: name of the run.

    Raises:
        ConfigError: the URL is not one of Redis.
    """

    def __init__(self, redis_url: str, run: str) -> None:
        client, self._place = open_redis(redis_url)
        self._redis = cast("_Commands", client)
        self._prefix = f"zerofleet:{run}:heartbeat:"

    def beat(
        self,
        service: str,
        worker: str,
        progress: int,
        waiting_for: str,
        figures: Mapping[str, float],
        ttl: float = 10.0,
    ) -> None:
        """Say that a process is alive.

        Args:
            service: such as ``selfplay``.
            worker: name of the process.
            progress: grows with the work done.
            waiting_for: what it waits for, in words; empty while it works.
            figures: what somebody who watches wants to know.
            ttl: seconds until it counts as gone.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        content = {
            "service": service,
            "worker": worker,
            "progress": progress,
            "waiting_for": waiting_for,
            "figures": dict(figures),
        }
        with our_errors(self._place):
            self._redis.set(self._key(service, worker), json.dumps(content), px=round(ttl * 1000))

    def read(self) -> list[Heartbeat]:
        """Everybody who is alive, by service and worker.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        with our_errors(self._place):
            pattern = f"{self._prefix}*"
            keys = sorted(set(self._redis.scan_iter(match=pattern, count=_SCAN_COUNT)))
            contents = self._redis.mget(keys) if keys else []
        return [beat for content in contents if (beat := _understood(content)) is not None]

    def read_trainer(self) -> Heartbeat | None:
        """The trainer's alone, at a cost that does not grow with the fleet; None: it is away.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        with our_errors(self._place):
            # MGET, as for all of them: it is what workers could do before there was this.
            [content] = self._redis.mget([self._key(_TRAINER, "")])
        return _understood(content)

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()

    def _key(self, service: str, worker: str) -> str:
        """Where a process beats; a run has one trainer, which is found without its name."""
        return f"{self._prefix}{service}:{'only' if service == _TRAINER else worker}"


def _understood(content: bytes | None) -> Heartbeat | None:
    """What a key holds; None for nothing, and for what no process of ours has written.

    One process must not be able to stop those that read about all.
    """
    if content is None:
        return None
    try:
        beat = _HEARTBEAT.validate_json(content)
    except ValidationError:
        return None
    numbers = {name: value for name, value in beat.figures.items() if math.isfinite(value)}
    return replace(beat, figures=numbers)
