"""The train bucket: new positions pay for training, so that no position is trained on too often.

``Demand`` says how fast samples could be drawn from it: that is what self-play is sized by.

As KataGo does it (Wu 2019 and its later training scripts): without such a bound, a trainer that is
faster than its self-play fits the same few games over and over.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from zerofleet.figures import DemandFigures

# A publication is part of its work: the window should hold several of them.
_WINDOW_SECONDS = 600.0
_EVERY_SECONDS = 5.0


@dataclass(slots=True)
class TrainBucket:
    """Samples that may still be drawn.

    Args:
        samples_per_position: what one new position pays for.
        samples: paid for and not yet drawn.
        received: positions that have paid since the run began.
        drawn: samples drawn since the run began.
        pace: share of all this that a new position pays for at present, by the overfit watch.
        least_samples_per_position: what it pays for, if that is less, while the trainer is behind.
        behind: positions; the trainer is behind while the bucket holds what so many pay for.
    """

    samples_per_position: float
    samples: float = 0.0
    received: int = 0
    drawn: int = 0
    pace: float = 1.0
    least_samples_per_position: float = math.inf
    behind: float = math.inf

    @property
    def rate(self) -> float:
        """Samples that a new position pays for at present, unless the trainer is behind."""
        return self.samples_per_position * self.pace

    def pay(self, positions: int) -> None:
        """Enter new positions."""
        rate = self.rate
        if self.samples >= self.behind * rate:
            rate = min(rate, self.least_samples_per_position * self.pace)
        self.samples += positions * rate
        self.received += positions

    def limit(self, window_positions: int, batch_size: int) -> None:
        """Drop what was paid for by positions that have left the window by now.

        Otherwise a trainer that was behind would spend it on newer positions, which would then be
        drawn more often than they paid for. One batch may always be saved up: a small window that
        pays little, as while the trainer is slowed down, must not stop training for ever.
        """
        self.samples = min(self.samples, max(window_positions * self.rate, float(batch_size)))

    def slow(self, pace: float) -> None:
        """Let positions pay for this share, those too whose samples are not drawn yet."""
        self.samples *= pace / self.pace
        self.pace = pace

    def full_pace(self) -> None:
        """Let new positions pay in full; what is in the bucket stays as it is."""
        self.pace = 1.0

    def holds(self, batch_size: int) -> bool:
        """Whether a batch is paid for."""
        return self.samples >= batch_size

    def draw(self, batch_size: int) -> None:
        """Take the samples of one batch out."""
        self.samples -= batch_size
        self.drawn += batch_size

    @property
    def reuse(self) -> float:
        """Samples drawn for each position received, so far."""
        return self.drawn / self.received if self.received else 0.0

    def missing_positions(self, batch_size: int) -> int:
        """New positions needed before the next batch."""
        return max(0, math.ceil((batch_size - self.samples) / self.rate))


@dataclass(frozen=True, slots=True)
class _Mark:
    """How things stood at one time."""

    seconds: float
    waited: float  # seconds, of all before
    drawn: int
    received: int


class Demand:
    """How fast the trainer could train if it never waited for positions; of the last ten minutes.

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

    def figures(self) -> DemandFigures:
        """As things stand now."""
        target = self._bucket.rate
        if not self._marks:
            return DemandFigures(reuse_target=target)
        first, last = self._marks[0], self._mark(self._clock())
        self._learn(last)
        seconds, received = last.seconds - first.seconds, last.received - first.received
        return DemandFigures(
            reuse_target=target,
            wait_share=(last.waited - first.waited) / seconds if seconds > 0 else None,
            reuse=(last.drawn - first.drawn) / received if received > 0 else None,
            samples_per_second=self._samples_per_second or None,
        )

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
