"""What the trainer says about itself: heartbeats in Redis, and a log line when it waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import structlog

from zerofleet.errors import StoreUnavailableError
from zerofleet.heartbeat import Heartbeats

BEAT_SECONDS = 2.0
LOG_SECONDS = 15.0

_log = structlog.get_logger()


class Pulse:
    """Heartbeats at a bounded rate; Redis may be away without anybody noticing here.

    Args:
        heartbeats: where they go.
        worker: name of this process.
        figures: the trainer's present step and figures, asked for at each beat.
    """

    def __init__(
        self,
        heartbeats: Heartbeats,
        worker: str,
        figures: Callable[[], tuple[int, Mapping[str, float]]],
    ) -> None:
        self._heartbeats = heartbeats
        self._worker = worker
        self._figures = figures
        self._next_beat = 0.0
        self._next_log: dict[str, float] = {}

    def working(self) -> None:
        """Nothing is waited for."""
        self._beat("")

    def waiting(self, kind: str, waiting_for: str | None = None) -> None:
        """Say what is waited for.

        Args:
            kind: each kind is logged when it first comes up, and then only now and then: a trainer
                that keeps up with its games waits for some every second.
            waiting_for: the words, with figures that change; by default the kind itself.
        """
        words = waiting_for or kind
        now = time.monotonic()
        if now >= self._next_log.get(kind, 0.0):
            self._next_log[kind] = now + LOG_SECONDS
            _log.info("waiting", waiting_for=words)
        self._beat(words)

    def _beat(self, waiting_for: str) -> None:
        now = time.monotonic()
        if now < self._next_beat:
            return
        self._next_beat = now + BEAT_SECONDS
        step, figures = self._figures()
        try:
            self._heartbeats.beat("trainer", self._worker, step, waiting_for, dict(figures))
        except StoreUnavailableError as error:
            _log.debug("heartbeat_not_sent", reason=str(error))
