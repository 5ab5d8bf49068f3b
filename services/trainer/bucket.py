"""The train bucket: new positions pay for training, so that no position is trained on too often.

As KataGo does it (Wu 2019 and its later training scripts): without such a bound, a trainer that is
faster than its self-play fits the same few games over and over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(slots=True)
class TrainBucket:
    """Samples that may still be drawn.

    Args:
        samples_per_position: what one new position pays for.
        samples: paid for and not yet drawn.
        received: positions that have paid since the run began.
        drawn: samples drawn since the run began.
        pace: share of ``samples_per_position`` that a new position pays for at present.
    """

    samples_per_position: float
    samples: float = 0.0
    received: int = 0
    drawn: int = 0
    pace: float = 1.0

    @property
    def rate(self) -> float:
        """Samples that a new position pays for at present."""
        return self.samples_per_position * self.pace

    def pay(self, positions: int) -> None:
        """Enter new positions."""
        self.samples += positions * self.rate
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
