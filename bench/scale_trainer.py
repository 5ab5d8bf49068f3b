"""The trainer in a simulation: its own bucket and its own account of its time, at another clock."""

from __future__ import annotations

from dataclasses import dataclass

from services.trainer.train_bucket import Demand, TrainBucket
from zerofleet.figures import DemandFigures


@dataclass(frozen=True, slots=True)
class Training:
    """What a trainer does."""

    samples_per_second: float
    """While it does not wait."""
    samples_per_position: float = 4.0
    batch_size: int = 256
    min_positions: int = 2_000
    window_positions: int = 1_000_000
    publish_seconds: float = 20.0
    """Of a publication, in which it neither trains nor sends heartbeats."""
    max_ahead_positions: int = 0


class Trainer:
    """Trains as much as positions pay for.

    Args:
        training: how fast, and how often on each.
    """

    def __init__(self, training: Training) -> None:
        self._training = training
        self._bucket = TrainBucket(training.samples_per_position)
        self._now = 0.0
        self._demand = Demand(self._bucket, lambda: self._now)
        self._speed = training.samples_per_second
        self._publishes_until = 0.0
        self._begun = 0.0  # samples of the batch that it is in the middle of
        self.waited = 0.0
        self.worked = 0.0
        self.dropped = 0.0
        """Samples that were paid for and left the window before they were drawn."""

    @property
    def drawn(self) -> int:
        """Samples, of all positions."""
        return self._bucket.drawn

    @property
    def received(self) -> int:
        """Positions."""
        return self._bucket.received

    @property
    def unspent(self) -> float:
        """Positions that it could still train on."""
        return self._bucket.samples / self._bucket.rate

    @property
    def holds_up_play(self) -> bool:
        """Whether self-play pauses for it."""
        most = self._training.max_ahead_positions
        return bool(most) and self.unspent > most

    def publish(self) -> None:
        """Begin a publication."""
        self._publishes_until = self._now + self._training.publish_seconds

    def halve(self) -> None:
        """From now on it draws half as much."""
        self._speed /= 2

    def is_silent(self) -> bool:
        """Whether its last heartbeat has run out in the middle of a publication."""
        return self._now < self._publishes_until - self._training.publish_seconds / 2

    def receive(self, positions: float) -> None:
        """Games have come in."""
        training, bucket = self._training, self._bucket
        bucket.pay(round(positions))
        before = bucket.samples
        bucket.limit(min(bucket.received, training.window_positions), training.batch_size)
        self.dropped += before - bucket.samples

    def tick(self, now: float, seconds: float) -> None:
        """Work until ``now``, the last ``seconds`` of it."""
        training, bucket = self._training, self._bucket
        begin = now - seconds
        self._now = begin
        self._demand.turn(hungry=False)
        left = seconds - max(0.0, min(now, self._publishes_until) - begin)
        budget = self._begun + self._speed * left
        paid = bucket.samples if bucket.received >= training.min_positions else 0.0
        batches = int(min(paid, budget) // training.batch_size)
        samples = batches * training.batch_size
        bucket.draw(samples)
        hungry = paid - samples < training.batch_size
        # A batch that is not done by now goes on; without one it waits.
        self._begun = 0.0 if hungry else budget - samples
        waits = min(left, (budget - samples) / self._speed) if hungry else 0.0
        self.waited += waits
        self.worked += seconds - waits
        self._now = now - waits
        self._demand.turn(hungry=waits > 0)
        self._now = now

    def figures(self) -> DemandFigures:
        """As in its heartbeat."""
        return self._demand.figures()
