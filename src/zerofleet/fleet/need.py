"""What a fleet does, what its trainer would use and what inference could give.

The trainer is the demand: it could draw so many samples a second, and each position may be drawn a
certain number of times. Self-play is the supply. Whether more workers would bring more is for
inference to say: how full its batches are, how long requests wait, how much it could do.
CPUs and GPUs are no signal: self-play's CPUs are always busy, and so is a GPU with batches of one.

``FleetFigures`` is what heartbeats say, ``Need`` what follows from it: as advice for a person in
``zerofleet status``, and as the number of replicas in
``zerofleet.services.autoscaler.desired_replicas``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from zerofleet.config import NetworkSection, ScalingSection
from zerofleet.fleet.figures import Figures, InferenceFigures, SelfplayFigures, TrainerFigures
from zerofleet.fleet.heartbeat import Heartbeat

_SLOW_ROWS_PER_SECOND = 1_000  # of inference on CPUs: with fewer a game takes minutes
_QUICK_ROWS_PER_SECOND = 5_000
_USUAL_NETWORKS = ((6, 64), (4, 64), (5, 32), (2, 32), (2, 16))  # blocks, channels
_EFFICIENT_CHANNELS = 32
_SMALL_EFFICIENCY = 0.6
LEAST_ACTIVE = 0.1  # share of its time in which a worker must play for its speed to be known
_WHOLE_LOAD = 0.95  # of inference's capacity: nearer to all of it, waits grow without bound


@dataclass(frozen=True, slots=True)
class FleetFigures:
    """Sums over all processes that were heard of; a mean over time has the same fields."""

    trainers: float = 0
    """Trainers whose figures are known; one that has not trained yet has none."""
    samples_per_second: float = 0
    """Samples that the trainer would draw if it never waited for positions."""
    reuse_target: float = 0
    """Samples that a new position pays for at present."""
    workers: float = 0
    """Self-play processes, those that just start included."""
    playing: float = 0
    """Of these, the ones that play, or would if they did not wait for others."""
    active: float = 0
    """Of these, less the shares of their time in which they wait for others."""
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


def observe(heartbeats: Iterable[Heartbeat]) -> FleetFigures:
    """Sum up what was said; heartbeats disappear within seconds when they are not renewed."""
    sums = dict.fromkeys((*(field.name for field in fields(FleetFigures)), "measured"), 0.0)
    for beat in heartbeats:
        for name, value in _share(beat.figures).items():
            sums[name] += value
    measured = sums.pop("measured")
    if measured:
        sums["capacity_rows_per_second"] *= sums["replicas"] / measured
    return FleetFigures(**sums)


def mean(looks: Sequence[FleetFigures]) -> FleetFigures:
    """The mean of several looks, at least one."""
    return FleetFigures(**{
        field.name: sum(getattr(look, field.name) for look in looks) / len(looks)
        for field in fields(FleetFigures)
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


@dataclass(frozen=True, slots=True)
class Need:
    """What follows from figures that are complete.

    **reuse** is how often each new position would be drawn if nothing waited: samples a
    second that the trainer could draw / positions a second that self-play could make. What is
    measured is not it. The train bucket never lets a position be drawn more than ``target`` times:
    a trainer that is faster than its self-play waits instead, and then

        reuse = samples drawn for each new position / (1 - share of its time that it waits).

    And where ``selfplay.max_ahead_positions`` is set, self-play that is faster than its trainer
    pauses instead, and then

        reuse = samples drawn for each new position * (1 - share of its time that it pauses).

    Both rates are measured where they arise, not by the games that arrive: a worker's games end in
    waves that may be hours apart.

    As both are rates of what is there, **workers** does not depend on how many there are: pods that
    start, or were preempted, change nothing about what is needed.
    """

    reuse: float
    target: float
    playing: float
    """Workers that make positions now."""
    workers: float
    """Workers that would bring ``reuse`` to ``target``."""
    fed: float
    """Workers that inference can feed; infinite while its capacity is not known."""
    replicas: float
    """Inference replicas for the rows of the workers that are needed; 0: capacity not known."""
    replicas_now: float
    """The same for the rows that there are now."""
    fill: float
    wait: float
    load: float
    """Rows a second / capacity of inference; 0 while that is not known."""

    @property
    def text(self) -> str:
        """Such as ``reuse 6.1 of 4.0, fill 0.31, wait/compute 0.2``."""
        return (
            f"reuse {self.reuse:.1f} of {self.target:.1f}, "
            f"fill {self.fill:.2f}, wait/compute {self.wait:.1f}"
        )

    def inference_text(self, section: ScalingSection, replicas: int) -> str:
        """That inference is what lacks, and by which figure one sees it."""
        most = f", which is at its most ({replicas})" if replicas >= section.max_inference else ""
        return f"inference should grow{most}: {self.limit_text(section)}"

    def limit_text(self, section: ScalingSection) -> str:
        """The figure by which one sees that inference is what lacks, and all others."""
        waits = self.wait >= section.max_wait
        sign = f"wait/compute {self.wait:.1f}" if waits else f"load {self.load:.2f}"
        return f"{sign} ({self.text})"


def need_of(fleet: FleetFigures, section: ScalingSection) -> Need:
    """What a fleet needs whose figures are complete (``fleet.missing`` is empty)."""
    target = fleet.reuse_target / fleet.trainers
    active = max(fleet.active, LEAST_ACTIVE * fleet.playing)
    demand = _demand(fleet, active, target)
    load = planned = 0.0
    if fleet.capacity_rows_per_second:
        load = fleet.rows_per_second / fleet.capacity_rows_per_second
        planned = load * fleet.replicas / section.inference_load
    return Need(
        reuse=demand * target,
        target=target,
        playing=fleet.playing,
        workers=demand * fleet.playing,
        fed=active * _WHOLE_LOAD / load if load else math.inf,
        replicas=planned * demand * fleet.playing / active,
        replicas_now=planned,
        fill=fleet.fill,
        wait=fleet.wait,
        load=load,
    )


def _demand(fleet: FleetFigures, active: float, target: float) -> float:
    """Positions wanted / positions that self-play could make: above 1 more workers are of use."""
    if fleet.active < LEAST_ACTIVE * fleet.playing:
        return 0.5  # all let the trainer catch up: too many, and by how much cannot be measured
    if not fleet.positions_per_second:
        return 1.0
    supply = fleet.positions_per_second * fleet.playing / active
    return fleet.samples_per_second / fleet.trainers / target / supply


@dataclass(frozen=True, slots=True)
class Advice:
    """How many self-play workers would be used."""

    workers: int
    """That there are."""
    useful: int | None
    """That would be used; None while figures are missing."""
    words: str


def advise(fleet: FleetFigures, section: ScalingSection, cores: int | None = None) -> Advice:
    """What the rule thinks of the fleet as it is.

    Args:
        fleet: at one moment.
        section: bounds of the run file; ``max_workers`` is the autoscaler's, not a person's.
        cores: of the machine that all run on; None: there are several machines.
    """
    workers = round(fleet.workers)
    there = f"self-play: {workers} worker" + ("" if workers == 1 else "s")
    if fleet.missing:
        return Advice(workers, None, f"{there}; no advice yet: {fleet.missing}")
    need = need_of(fleet, section)
    if section.shrink_below * workers <= need.workers <= section.grow_above * workers:
        return Advice(workers, workers, f"{there}; enough: {need.text}")
    useful = within(1, whole(need.workers), 2 * max(workers, 1))
    if useful > workers and (need.wait >= section.max_wait or need.fed < workers + 1):
        words = (
            need.inference_text(section, round(fleet.replicas))
            if cores is None
            else f"more would wait for inference: {need.limit_text(section)}"
        )
        return Advice(workers, workers, f"{there}; {words}")
    if useful > workers:
        useful = max(workers, int(min(useful, need.fed)))
    if useful == workers:
        return Advice(workers, workers, f"{there}; enough: {need.text}")
    words = f"{there}; {useful} would be used: {need.text}"
    if cores is not None and useful > max(workers, cores):
        words += f", but this machine has {cores} cores"
    return Advice(workers, useful, words)


def smaller_network(
    network: NetworkSection, observation_shape: tuple[int, int, int], rows_per_second: float
) -> str | None:
    """That a network is too large for CPUs, with the largest of some usual ones that would do.

    The rate of another is calculated from what this one really does, in proportion to the
    multiply-adds of the tower's convolutions: from 32 filters on, a core was measured to do about
    as many a second for each size, and 0.6 of that with 16 (bench/NOTES.md).

    Args:
        network: as it is.
        observation_shape: (planes, rows, columns) of the game.
        rows_per_second: that inference could evaluate with it; above 0.
    """
    if rows_per_second >= _SLOW_ROWS_PER_SECOND:
        return None
    planes, rows, columns = observation_shape

    def cost(blocks: int, channels: int) -> float:
        taps = 9 * rows * columns * channels * (planes + 2 * blocks * channels)
        return taps if channels >= _EFFICIENT_CHANNELS else taps / _SMALL_EFFICIENCY

    now = rows_per_second * cost(network.blocks, network.channels)
    rates = {size: now / cost(*size) for size in _USUAL_NETWORKS}
    faster = {size: rate for size, rate in rates.items() if rate > 2 * rows_per_second}
    if not faster:
        return None
    fitting = (size for size, rate in faster.items() if rate >= _QUICK_ROWS_PER_SECOND)
    blocks, channels = next(fitting, next(reversed(faster)))
    return (
        f"{rows_per_second:,.0f} positions/s: with blocks = {blocks}, channels = {channels} about "
        f"{_two_digits(rates[blocks, channels]):,}"
    )


def _two_digits(number: float) -> int:
    return int(round(number, 1 - math.floor(math.log10(number)))) if number >= 1 else 1


def whole(replicas: float) -> int:
    """Rounded up, but for what is only a rounding error above a whole number."""
    return math.ceil(replicas - 1e-6)


def within(least: int, count: int, most: int) -> int:
    """The nearest number inside the bounds."""
    return max(least, min(count, most))
