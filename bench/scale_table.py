"""The scenarios of the table, and the figures of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from bench.report import Row
from bench.scale_batches import Cost
from bench.scale_play import Play
from bench.scale_run import Faults, Scenario, Trace, World
from bench.scale_trainer import Training
from bench.scale_ways import (
    ConstantHpa,
    ExternalScaler,
    PrometheusFormula,
    ScrapedAnswer,
    Way,
)
from zerofleet.config import ScalingSection

SIZES = (1, 10, 100, 1_000, 10_000)
WAYS = (ExternalScaler.name, ScrapedAnswer.name, PrometheusFormula.name, ConstantHpa.name)
FAULTS = {
    "none": Faults(),
    "preempted": Faults(preempted_per_hour=0.05),
    "storm": Faults(storm_at=6_000.0),
    "replica lost": Faults(replica_lost_at=6_000.0),
    "published": Faults(published_every=600.0),
    "silent": Faults(silent=(600.0, 900.0)),
    "halved": Faults(halved_at=6_000.0),
}
# In place of a fault: half of the inference that all would need, or inference on CPUs, each of
# which one worker more than keeps busy.
FEW_REPLICAS, CPU = "few replicas", "cpu"

# ONNX Runtime on one core, fp32, Go 9x9 with 6 blocks of 64 filters: 339 us a row in every batch.
CPU_COST = Cost(fixed=0.0, per_row=339e-6)
# A GPU, 100,000 rows a second in full batches: assumed, with a launch cost that is typical of one.
GPU_COST = Cost(fixed=0.5e-3, per_row=9.3e-6)

_SEVERAL = 100  # workers that need more than one replica
_FED = 0.95  # of inference's capacity: more workers than use that are no use
_STALE = 1.25  # a constant that was measured with another model
_HOLDS_SECONDS = 600.0
_LEAST_SHARE, _MOST_SHARE = 0.8, 1.25  # of the ideal: near enough


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table."""

    way: str
    size: int
    """Workers' worth of the trainer's demand."""
    fault: str


def cases(sizes: Sequence[int], faults: Sequence[str], ways: Sequence[str]) -> Iterator[Case]:
    """Every combination that means something."""
    for way in ways:
        for size in sizes:
            for fault in faults:
                if fault not in ("replica lost", FEW_REPLICAS) or size >= _SEVERAL:
                    yield Case(way, size, fault)


def play_through(case: Case, hours: float, seed: int) -> tuple[Row, Trace]:
    """Simulate one case."""
    scenario = scenario_of(case, hours, seed)
    world = World(scenario, way_of(case.way, scenario))
    trace = world.run()
    return _figures(case, scenario, world, trace), trace


def scenario_of(case: Case, hours: float, seed: int) -> Scenario:
    """A fleet whose trainer wants as many positions as ``case.size`` workers make."""
    on_cpu = case.fault == CPU
    play = Play(rows_per_second=20_000.0) if on_cpu else Play()
    cost = CPU_COST if on_cpu else GPU_COST
    positions = case.size * play.positions_per_second
    training = Training(
        samples_per_second=4 * positions,
        window_positions=max(50_000, round(3_600 * positions)),
    )
    if on_cpu:
        training = replace(training, samples_per_second=training.samples_per_second / 4)
    needed = case.size * play.rows_per_second / cost.capacity
    replicas = 1 if on_cpu and case.size == 1 else max(2, 2 * math.ceil(needed))
    wanted = float(case.size)
    if case.fault == FEW_REPLICAS:
        replicas = int(needed / 2)
        wanted = _FED * replicas * cost.capacity / play.rows_per_second
    return Scenario(
        name=f"{case.size} {case.fault}",
        play=play,
        cost=cost,
        training=training,
        wanted=wanted,
        most_workers=max(4, 2 * case.size),
        most_replicas=replicas,
        faults=FAULTS.get(case.fault, Faults()),
        seconds=3_600.0 * hours,
        seed=seed,
    )


def way_of(name: str, scenario: Scenario) -> Way:
    """What sizes the fleet."""
    section = ScalingSection(
        max_workers=scenario.most_workers, max_inference=scenario.most_replicas
    )
    if name == ExternalScaler.name:
        return ExternalScaler(section)
    if name == ScrapedAnswer.name:
        return ScrapedAnswer(section)
    if name == PrometheusFormula.name:
        return PrometheusFormula(section)
    positions = scenario.play.positions_per_second / _STALE
    return ConstantHpa(positions, section.inference_load * scenario.cost.capacity)


def _figures(case: Case, scenario: Scenario, world: World, trace: Trace) -> Row:
    converged = None if case.fault == CPU else _converged(scenario.wanted, trace)
    start = 0 if converged is None else converged
    players = world.players
    elapsed = trace.seconds[-1] - trace.seconds[start]
    drawn = trace.drawn[-1] - trace.drawn[start]
    paid = trace.paid[-1] - trace.paid[start]
    reversals, largest = _reversals(trace.asked[start:])
    return {
        "way": case.way,
        "size": case.size,
        "fault": case.fault,
        "wanted": scenario.wanted,
        "converged_minutes": None if converged is None else trace.seconds[converged] / 60,
        "workers": float(np.mean(trace.workers[start:])),
        "most_workers": max(trace.workers),
        "replicas": float(np.mean(trace.replicas[start:])),
        "fill": float(np.mean(trace.fill[start:])),
        "wait": float(np.mean(trace.wait[start:])),
        "trainer_waits": (trace.waited[-1] - trace.waited[start]) / elapsed if elapsed else None,
        "unused": max(0.0, 1 - drawn / paid) if paid else None,
        "lost": players.positions_lost / max(players.positions_made, 1.0),
        "reversals": reversals,
        "largest_reversal": largest,
    }


def _converged(wanted: float, trace: Trace) -> int | None:
    """From where on the workers stay near what is wanted, for ten minutes at least."""
    low, high = math.floor(_LEAST_SHARE * wanted), math.ceil(_MOST_SHARE * wanted)
    since: int | None = None
    for number, workers in enumerate(trace.workers):
        if not low <= workers <= high:
            since = None
        elif since is None:
            since = number
        elif trace.seconds[number] - trace.seconds[since] >= _HOLDS_SECONDS:
            return since
    return None


def _reversals(asked: Sequence[int]) -> tuple[int, float]:
    """How often the number asked for turned round, and its largest step back."""
    steps = [(before, after - before) for before, after in pairwise(asked) if after != before]
    turns = [
        abs(step) / before
        for (_, last), (before, step) in pairwise(steps)
        if (last > 0) != (step > 0)
    ]
    return len(turns), max(turns, default=0.0)
