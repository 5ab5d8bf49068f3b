"""The state of a fleet: the trainer's demand, and what self-play and inference can supply.

The trainer is the demand: it could draw a certain number of samples per second, and each position
may be drawn a certain number of times. Self-play is the supply. Whether more workers would produce
more depends on inference: how full its batches are, how long requests wait, and its capacity. CPU
and GPU usage are no signal: self-play's CPUs are always busy, and so is a GPU with batches of one.

``FleetFigures`` are the sums over heartbeats, and ``Need`` follows from them. It is advice for a
person in ``zerofleet status``, and the number of replicas in
``zerofleet.services.autoscaler.desired_replicas``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from zerofleet.config import NetworkSection, ScalingSection
from zerofleet.fleet.figures import Figures, InferenceFigures, SelfplayFigures, TrainerFigures
from zerofleet.fleet.heartbeat import Heartbeat

_SLOW_ROWS_PER_SECOND = 1_000  # limit for inference on CPUs: below it a game takes minutes
_QUICK_ROWS_PER_SECOND = 5_000
_USUAL_NETWORKS = ((6, 64), (4, 64), (5, 32), (2, 32), (2, 16))  # blocks, channels
_EFFICIENT_CHANNELS = 32
_SMALL_EFFICIENCY = 0.6
LEAST_ACTIVE = 0.1  # least share of its time in which a worker must play for its speed to be known
_WHOLE_LOAD = 0.95  # of inference's capacity: closer to full load, waits grow without bound


@dataclass(frozen=True, slots=True)
class FleetFigures:
    """Sums over all processes with a heartbeat; a mean over time has the same fields."""

    trainers: float = 0
    """Trainers whose figures are known; one that has not trained yet has none."""
    samples_per_second: float = 0
    """Samples per second that the trainer would draw if it never waited for positions."""
    reuse_target: float = 0
    """Samples that a new position currently allows."""
    workers: float = 0
    """Self-play processes, including new ones that still start."""
    playing: float = 0
    """Workers that play, or would if they did not wait for others."""
    active: float = 0
    """Playing workers, minus the shares of their time in which they wait for others."""
    paused: float = 0
    """Shares of their time in which workers pause for the trainer to catch up."""
    positions_per_second: float = 0
    """Positions for training that self-play makes, per second."""
    replicas: float = 0
    """Inference processes that have reported their load."""
    rows_per_second: float = 0
    """Positions that inference evaluates, per second."""
    capacity_rows_per_second: float = 0
    """Positions per second that inference could evaluate in full batches; 0: not known.

    Replicas without a measurement count as the average of the others.
    """
    filled: float = 0
    """Fill of the batches, 0 to 1, weighted by rows per second; divide by these for the mean."""
    waited: float = 0
    """Queue wait of requests / computation of batches, weighted by rows per second."""

    @property
    def missing(self) -> str:
        """Name of the service whose figures are missing, in words; empty if none is."""
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
    """Sum up the heartbeats, which disappear within seconds unless they are renewed."""
    sums = dict.fromkeys((*(field.name for field in fields(FleetFigures)), "measured"), 0.0)
    for beat in heartbeats:
        for name, value in _share(beat.figures).items():
            sums[name] += value
    measured = sums.pop("measured")
    if measured:
        sums["capacity_rows_per_second"] *= sums["replicas"] / measured
    return FleetFigures(**sums)


def mean(looks: Sequence[FleetFigures]) -> FleetFigures:
    """Return the mean of several observations, at least one."""
    return FleetFigures(**{
        field.name: sum(getattr(look, field.name) for look in looks) / len(looks)
        for field in fields(FleetFigures)
    })  # fmt: skip


def _share(figures: Figures) -> dict[str, float]:
    """Return what one process adds to the fleet's sums."""
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
        return {}  # its processes report their own load
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
    """The need that follows from complete figures.

    **reuse** is how often each new position would be drawn if nothing waited: samples per second
    that the trainer could draw / positions per second that self-play could make. It differs from
    the measured ratio. The train bucket never lets a position be drawn more than ``target`` times.
    A trainer that is faster than its self-play waits instead, and then

        reuse = samples drawn for each new position / (1 - share of its time that it waits).

    If ``selfplay.max_ahead_positions`` is set, self-play that is faster than its trainer pauses
    instead, and then

        reuse = samples drawn for each new position * (1 - share of its time that it pauses).

    Both rates are measured at their source, not from the games that arrive: a worker's games end in
    waves that may be hours apart.

    Since both are rates of existing processes, **workers** does not depend on how many there are.
    Pods that start, or were preempted, do not change the need.
    """

    reuse: float
    target: float
    playing: float
    """Workers that currently make positions."""
    workers: float
    """Workers that would bring ``reuse`` to ``target``."""
    fed: float
    """Workers that inference can feed; infinite while its capacity is not known."""
    replicas: float
    """Inference replicas for the rows of the workers that are needed; 0: capacity not known."""
    replicas_now: float
    """Inference replicas for the current rows; 0: capacity not known."""
    fill: float
    wait: float
    load: float
    """Rows per second / capacity of inference; 0 while that is not known."""

    @property
    def text(self) -> str:
        """Summary, such as ``reuse 6.1 of 4.0, fill 0.31, wait/compute 0.2``."""
        return (
            f"reuse {self.reuse:.1f} of {self.target:.1f}, "
            f"fill {self.fill:.2f}, wait/compute {self.wait:.1f}"
        )

    def inference_text(self, section: ScalingSection, replicas: int) -> str:
        """Return that inference is the bottleneck, and the figure that shows it."""
        most = f", which is at its most ({replicas})" if replicas >= section.max_inference else ""
        return f"inference should grow{most}: {self.limit_text(section)}"

    def limit_text(self, section: ScalingSection) -> str:
        """Return the figure that shows that inference is the bottleneck, and all others."""
        waits = self.wait >= section.max_wait
        sign = f"wait/compute {self.wait:.1f}" if waits else f"load {self.load:.2f}"
        return f"{sign} ({self.text})"


def need_of(fleet: FleetFigures, section: ScalingSection) -> Need:
    """Return the need of a fleet whose figures are complete (``fleet.missing`` is empty)."""
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
    """Return positions wanted / positions that self-play could make; above 1 more workers help."""
    if fleet.active < LEAST_ACTIVE * fleet.playing:
        # all pause for the trainer: there are too many, but by how much cannot be measured
        return 0.5
    if not fleet.positions_per_second:
        return 1.0
    supply = fleet.positions_per_second * fleet.playing / active
    return fleet.samples_per_second / fleet.trainers / target / supply


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice on the number of self-play workers."""

    workers: int
    """Number of workers."""
    useful: int | None
    """Useful number of workers; None while figures are missing."""
    words: str
    """The advice in a sentence or two."""
    figures: str = ""
    """The figures behind it; empty while some are missing."""


def advise(fleet: FleetFigures, section: ScalingSection, cores: int | None = None) -> Advice:
    """Apply the autoscaler's rule to the current fleet.

    Args:
        fleet: figures of one moment.
        section: bounds of the run file; ``max_workers`` applies to the autoscaler, not to a person.
        cores: cores of the machine that runs everything; None: there are several machines.
    """
    workers = round(fleet.workers)
    there = f"{workers} worker" + ("" if workers == 1 else "s") + " running"
    if fleet.missing:
        return Advice(workers, None, f"{there}. No advice yet: {fleet.missing}.")
    need = need_of(fleet, section)
    if section.shrink_below * workers <= need.workers <= section.grow_above * workers:
        return Advice(workers, workers, f"{there}, which is enough.", need.text)
    useful = within(1, whole(need.workers), 2 * max(workers, 1))
    if useful > workers and (need.wait >= section.max_wait or need.fed < workers + 1):
        words = f"{there}. Adding workers will not help: inference is saturated."
        if cores is None and round(fleet.replicas) >= section.max_inference:
            words += f" It is at its limit (scaling.max_inference = {section.max_inference})."
        elif cores is None:
            words += " Add inference replicas."
        return Advice(workers, workers, words, need.limit_text(section))
    if useful > workers:
        useful = max(workers, int(min(useful, need.fed)))
    if useful == workers:
        return Advice(workers, workers, f"{there}, which is enough.", need.text)
    if useful < workers:
        return Advice(workers, useful, f"{there}. {useful} would be enough.", need.text)
    words = f"{there}. The trainer could use {useful}"
    if cores is not None and useful > max(workers, cores):
        words += f", but this machine has {cores} cores"
    return Advice(workers, useful, f"{words}.", need.text)


def smaller_network(
    network: NetworkSection, observation_shape: tuple[int, int, int], rows_per_second: float
) -> str | None:
    """Return that a network is too large for CPUs, and the largest usual one that is not.

    The rate of another network is calculated from the measured rate of this one, in proportion to
    the multiply-adds of the tower's convolutions. With 32 filters or more, a core was measured to
    do about the same number per second at each size, and 0.6 of that with 16 (lab/notes.md).

    Args:
        observation_shape: (planes, rows, columns) of the game.
        rows_per_second: positions per second that inference could evaluate with it; above 0.
    """
    if network.is_own or rows_per_second >= _SLOW_ROWS_PER_SECOND:
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
    """Round up, ignoring a rounding error above a whole number."""
    return math.ceil(replicas - 1e-6)


def within(least: int, count: int, most: int) -> int:
    """Return the nearest number inside the bounds."""
    return max(least, min(count, most))
