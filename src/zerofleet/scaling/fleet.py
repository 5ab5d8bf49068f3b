"""What the fleet says of itself: the heartbeats of one moment, summed up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from zerofleet.figures import Figures, InferenceFigures, SelfplayFigures, TrainerFigures
from zerofleet.heartbeat import Heartbeat

LEAST_ACTIVE = 0.1  # share of its time in which a worker must play for its speed to be known


@dataclass(frozen=True, slots=True)
class Fleet:
    """Sums over everybody who was heard of; means of them over time are a ``Fleet`` too."""

    trainers: float = 0
    """Trainers whose figures are known; one that has not trained yet has none."""
    samples_per_second: float = 0
    """Samples that the trainer would draw if it never waited for positions."""
    reuse_target: float = 0
    """Samples that a new position pays for at present."""
    workers: float = 0
    """Self-play processes, those that just start included."""
    playing: float = 0
    """Of these, the ones that play, or would if they did not wait for somebody."""
    active: float = 0
    """Of these, less the shares of their time in which they wait for somebody."""
    paused: float = 0
    """Shares of their time in which it is the trainer that they wait for, to catch up."""
    positions_per_second: float = 0
    """Positions to train on that self-play makes."""
    replicas: float = 0
    """Inference processes that have said how much they do."""
    rows_per_second: float = 0
    """Positions that inference evaluates."""
    capacity_rows_per_second: float = 0
    """Positions that it could evaluate in full batches, where a replica that does not know yet
    counts like the mean of those that do; 0: none knows."""
    filled: float = 0
    """Fill of the batches, 0 to 1, times rows a second: divide by these for the mean."""
    waited: float = 0
    """Queue wait of requests / computation of batches, times rows a second, likewise."""

    @property
    def missing(self) -> str:
        """Whose figures are not there, in words; empty when nothing is missing."""
        if not self.workers:
            return "no heartbeat of a self-play worker"
        if not self.replicas:
            return "no figures of inference"
        if not self.trainers or not self.reuse_target:
            return "no figures of a trainer that trains"
        if self.active + self.paused < LEAST_ACTIVE * max(self.playing, 1):
            return "no worker plays"
        return ""

    @property
    def fill(self) -> float:
        """Mean rows of a batch / most rows of a batch."""
        return self.filled / self.rows_per_second if self.rows_per_second else 0.0

    @property
    def wait(self) -> float:
        """Mean queue wait of a request / mean computation of a batch."""
        return self.waited / self.rows_per_second if self.rows_per_second else 0.0


def observe(heartbeats: Iterable[Heartbeat]) -> Fleet:
    """Sum up what was said; heartbeats disappear within seconds when they are not renewed."""
    sums = dict.fromkeys((*(field.name for field in fields(Fleet)), "measured"), 0.0)
    for beat in heartbeats:
        for name, value in _share(beat.figures).items():
            sums[name] += value
    measured = sums.pop("measured")
    if measured:
        sums["capacity_rows_per_second"] *= sums["replicas"] / measured
    return Fleet(**sums)


def mean(looks: Sequence[Fleet]) -> Fleet:
    """The mean of several looks, at least one."""
    return Fleet(**{
        field.name: sum(getattr(look, field.name) for look in looks) / len(looks)
        for field in fields(Fleet)
    })  # fmt: skip


def _share(figures: Figures) -> dict[str, float]:
    """What one process adds to the fleet's sums."""
    if isinstance(figures, TrainerFigures):
        return _trainer(figures)
    if isinstance(figures, SelfplayFigures):
        return _worker(figures)
    return _replica(figures) if isinstance(figures, InferenceFigures) else {}


def _trainer(figures: TrainerFigures) -> dict[str, float]:
    samples = figures.demand.samples_per_second or 0.0
    if samples <= 0:
        return {}
    return {
        "trainers": 1.0,
        "samples_per_second": samples,
        "reuse_target": figures.demand.reuse_target,
    }


def _worker(figures: SelfplayFigures) -> dict[str, float]:
    positions = figures.training_positions_per_second
    waiting, paused = (
        min(1.0, max(0.0, share)) for share in (figures.waiting_share, figures.pause_share)
    )
    if positions <= 0 and waiting <= 0:
        return {"workers": 1.0}
    return {
        "workers": 1.0,
        "playing": 1.0,
        "active": 1.0 - max(waiting, paused),
        "paused": paused,
        "positions_per_second": positions,
    }


def _replica(figures: InferenceFigures) -> dict[str, float]:
    if figures.devices:
        return {}  # its processes say how much they do
    rows, capacity = figures.rows_per_second, figures.capacity_rows_per_second
    return {
        "replicas": 1.0,
        "measured": float(capacity > 0),
        "rows_per_second": rows,
        "capacity_rows_per_second": capacity,
        "filled": rows * (figures.fill or 0.0),
        "waited": rows * (figures.queue_wait_per_compute or 0.0),
    }
