"""What the trainer would use and what inference could give, in workers and replicas."""

from __future__ import annotations

import math
from dataclasses import dataclass

from zerofleet.config import ScalingSection
from zerofleet.scaling.fleet import LEAST_ACTIVE, Fleet

_WHOLE_LOAD = 0.95  # of inference's capacity: nearer to all of it, waits grow without bound


@dataclass(frozen=True, slots=True)
class Need:
    """What follows from figures that are complete.

    **reuse** is how often each new position would be drawn if nobody waited for anybody: samples a
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


def need_of(fleet: Fleet, section: ScalingSection) -> Need:
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


def _demand(fleet: Fleet, active: float, target: float) -> float:
    """Positions wanted / positions that self-play could make: above 1 more workers are of use."""
    if fleet.active < LEAST_ACTIVE * fleet.playing:
        return 0.5  # all let the trainer catch up: too many, and by how much cannot be measured
    if not fleet.positions_per_second:
        return 1.0
    supply = fleet.positions_per_second * fleet.playing / active
    return fleet.samples_per_second / fleet.trainers / target / supply
