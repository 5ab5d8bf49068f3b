"""How fast the trainer could train if it never waited for positions: what self-play is sized by."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from services.trainer.bucket import TrainBucket

# A publication is part of its work: the window should hold several of them.
_WINDOW_SECONDS = 600.0
_EVERY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _Mark:
    """How things stood at one time."""

    seconds: float
    waited: float  # seconds, of all before
    drawn: int
    received: int


class Demand:
    """Keeps account of the last ten minutes.

    Args:
        bucket: what was received and drawn.
        clock: seconds that never go back.
    """

    def __init__(self, bucket: TrainBucket, clock: Callable[[], float] = time.monotonic) -> None:
        self._bucket = bucket
        self._clock = clock
        self._marks: deque[_Mark] = deque()
        self._waited = 0.0
        self._waiting_since: float | None = None
        self._samples_per_second = 0.0  # the last that is known

    def turn(self, *, hungry: bool) -> None:
        """Once for each round of the loop.

        Args:
            hungry: whether it lacks positions: until the next call, time is waited.
        """
        now = self._clock()
        if self._waiting_since is not None:
            self._waited += now - self._waiting_since
        self._waiting_since = now if hungry else None
        if not self._marks or now - self._marks[-1].seconds >= _EVERY_SECONDS:
            self._marks.append(self._mark(now))
            while now - self._marks[0].seconds > _WINDOW_SECONDS:
                self._marks.popleft()
            self._learn(self._marks[-1])

    def figures(self) -> dict[str, float]:
        """Of the window; ``samples_per_second`` is missing until a batch was drawn.

        ``reuse`` is samples drawn for each position received, ``reuse_target`` what a new position
        pays for at present, ``wait_share`` the share of the time in which positions lacked, and
        ``samples_per_second`` what was drawn in the rest of the time, per second of it.
        """
        figures = {"reuse_target": self._bucket.rate}
        if not self._marks:
            return figures
        first, last = self._marks[0], self._mark(self._clock())
        self._learn(last)
        seconds, received = last.seconds - first.seconds, last.received - first.received
        if seconds > 0:
            figures["wait_share"] = (last.waited - first.waited) / seconds
        if received > 0:
            figures["reuse"] = (last.drawn - first.drawn) / received
        if self._samples_per_second:
            figures["samples_per_second"] = self._samples_per_second
        return figures

    def _learn(self, last: _Mark) -> None:
        """The speed of the window, if a batch was drawn in it; it is kept for when none is."""
        first = self._marks[0]
        drawn = last.drawn - first.drawn
        worked = last.seconds - first.seconds - (last.waited - first.waited)
        if drawn > 0 and worked > 0:
            self._samples_per_second = drawn / worked

    def _mark(self, now: float) -> _Mark:
        waiting = 0.0 if self._waiting_since is None else now - self._waiting_since
        return _Mark(now, self._waited + waiting, self._bucket.drawn, self._bucket.received)
