"""Does the autoscaler size a fleet well? A simulation, with the rule that runs on clusters.

A fleet begins with one worker and one inference replica, and its trainer wants as many positions as
1 to 10,000 workers make. Pods take a while to start and are preempted or killed by half, models are
published, figures are missing for five minutes. KEDA and the HorizontalPodAutoscaler do as their
documentation says; lab/scaling.md says what is modelled, and has the figures.
"""

from __future__ import annotations

import argparse
import math
from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from bench.batches import BatchCost, Served, served
from bench.report import Row, positive, run_main, show
from zerofleet.config import ScalingSection
from zerofleet.fleet.figures import DemandFigures
from zerofleet.fleet.need import FleetFigures
from zerofleet.learning.window import Demand, TrainBucket
from zerofleet.services.autoscaler.desired_replicas import Desired, ScalingRule

TICK_SECONDS = 5.0
# intervals of the autoscaler, and of the HPA, which makes KEDA ask each time
LOOK_TICKS, SYNC_TICKS = 2, 3
POD_SECONDS, REPLICA_SECONDS = (20.0, 60.0), (60.0, 120.0)  # until one is up: least and most
PUBLISH_SECONDS = 20.0  # the trainer does not train, and in the first half is not heard of

# A worker: rows that its core could search in a second (a quarter of a core), rows of a message,
# rows of a ply, searches of a ply that are trained on, games at once and their plies.
WORKER_ROWS, MESSAGE_ROWS, PLY_ROWS, PLY_POSITIONS, GAMES, PLIES = 4_000, 256, 50, 0.2375, 512, 60
WORKER_POSITIONS = WORKER_ROWS / PLY_ROWS * PLY_POSITIONS  # a second, of one that never waits
SAMPLES_PER_POSITION, BATCH_SIZE, LEAST_POSITIONS = 4.0, 256, 2_000

TOLERANCE = 0.1  # tolerance of the HPA: a metric nearer to its target changes nothing
UP_SHARE, DOWN_SHARE, PERIOD_SECONDS, STABILIZATION_SECONDS = 1.0, 0.25, 60.0, 300.0

_FED = 0.95  # share of inference's capacity: more workers than use that are no use
# shares of the ideal that count as near enough
_HOLDS_SECONDS, _LEAST_SHARE, _MOST_SHARE = 600.0, 0.8, 1.25


# A GPU, 100,000 rows a second in full batches: assumed, with a launch cost that is typical of one.
GPU = BatchCost(fixed=0.5e-3, per_row=9.3e-6)


class Hpa:
    """A HorizontalPodAutoscaler of a metric whose target is 1 for each replica.

    Args:
        most: replicas.
        replicas: that it begins with.
    """

    def __init__(self, most: int, replicas: int = 1) -> None:
        self._most = most
        self._advice: deque[tuple[float, int]] = deque()
        self._changes: deque[tuple[float, int]] = deque()
        self.replicas = replicas

    def sync(self, now: float, metric: int | None) -> None:
        """Look at the metric; None: there is none, and nothing changes."""
        if metric is None:
            return
        wanted = self.replicas
        if abs(metric / self.replicas - 1) > TOLERANCE:
            wanted = max(1, min(metric, self._most))
        self._advice.append((now, wanted))
        while now - self._advice[0][0] > STABILIZATION_SECONDS:
            self._advice.popleft()
        while self._changes and now - self._changes[0][0] >= PERIOD_SECONDS:
            self._changes.popleft()
        before = self.replicas - sum(change for _, change in self._changes)
        if wanted > self.replicas:
            count = max(self.replicas, min(wanted, math.ceil(before * (1 + UP_SHARE))))
        else:
            held = min(self.replicas, max(each for _, each in self._advice))
            count = min(self.replicas, max(held, math.floor(before * (1 - DOWN_SHARE))))
        self._changes.append((now, count - self.replicas))
        self.replicas = count


class Pods:
    """A Deployment: as many pods as it is told; a new one takes a while to come up."""

    def __init__(self, random: np.random.Generator, seconds: tuple[float, float]) -> None:
        self._random, self._seconds = random, seconds
        self._starting: list[float] = []  # when each is up
        self.up = 0

    def arrive(self, now: float) -> int:
        """Pods that have come up by now."""
        before = len(self._starting)
        self._starting = [at for at in self._starting if at > now]
        self.up += before - len(self._starting)
        return before - len(self._starting)

    def scale(self, now: float, replicas: int) -> int:
        """Set how many there should be; how many that are up must go, after those that start."""
        gone = max(0, self.up - replicas)
        self.up -= gone
        self._starting = self._starting[: replicas - self.up]
        missing = replicas - self.up - len(self._starting)
        self._starting += [now + each for each in self._random.uniform(*self._seconds, missing)]
        return gone


class SimulatedTrainer:
    """Trains as much as positions pay for: the real bucket and account of time, at another clock.

    Args:
        positions_per_second: that it wants.
    """

    def __init__(self, positions_per_second: float) -> None:
        self.speed = SAMPLES_PER_POSITION * positions_per_second  # samples a second
        self._window = max(50_000, round(3_600 * positions_per_second))
        self.bucket = TrainBucket(SAMPLES_PER_POSITION)
        self._now = 0.0
        self.demand = Demand(self.bucket, lambda: self._now)
        self.publishes_until = 0.0
        self._begun = 0.0  # samples of the batch that it is in the middle of
        self.waited = 0.0

    def tick(self, now: float, positions: float) -> None:
        """Take in the positions of games that ended, and work until ``now``."""
        bucket, begin = self.bucket, now - TICK_SECONDS
        bucket.pay(round(positions))
        bucket.limit(min(bucket.received, self._window), BATCH_SIZE)
        self._now = begin
        self.demand.turn(hungry=False)
        left = TICK_SECONDS - max(0.0, min(now, self.publishes_until) - begin)
        budget = self._begun + self.speed * left
        paid = bucket.samples if bucket.received >= LEAST_POSITIONS else 0.0
        samples = int(min(paid, budget) // BATCH_SIZE) * BATCH_SIZE
        bucket.draw(samples)
        hungry = paid - samples < BATCH_SIZE
        # A batch that is not done by now goes on; without one it waits.
        self._begun = 0.0 if hungry else budget - samples
        waits = min(left, (budget - samples) / self.speed) if hungry else 0.0
        self.waited += waits
        self._now = now - waits
        self.demand.turn(hungry=waits > 0)
        self._now = now


@dataclass(frozen=True, slots=True)
class Faults:
    """Faults and their times; seconds since the start."""

    preempted_per_hour: float = 0.0  # share of the pods, at times of chance
    storm_at: float = math.inf  # half of the pods are killed at once
    published_every: float = math.inf
    halved_at: float = math.inf  # the trainer draws half as much from then on
    silent: tuple[float, float] = (math.inf, math.inf)  # Redis is away from, until
    replicas: float = 2.0  # upper limit of inference, over the replicas that all workers would need


FAULTS = {
    "none": Faults(),
    "preempted": Faults(preempted_per_hour=0.05),
    "storm": Faults(storm_at=6_000.0),
    "published": Faults(published_every=600.0),
    "silent": Faults(silent=(600.0, 900.0)),
    "halved": Faults(halved_at=6_000.0),
    "few replicas": Faults(replicas=0.5),
}


class Sample(NamedTuple):
    """Observations at one time."""

    seconds: float
    asked: int
    workers: int
    replicas: int
    fill: float
    wait: float  # wait of a message / computation of a batch
    waited: float  # by the trainer, seconds since the start, as the next two
    drawn: int
    received: int


class Simulation:
    """A fleet whose trainer wants as many positions as ``size`` workers make.

    Args:
        size: workers' worth of the trainer's demand.
        fault: one of ``FAULTS``.
        seed: equal seeds, equal figures.
    """

    def __init__(self, size: int, fault: str, seed: int) -> None:
        self.size, self.fault, self._faults = size, fault, FAULTS[fault]
        self._random = np.random.default_rng(seed)
        needed, share = size * WORKER_ROWS / GPU.capacity, self._faults.replicas
        most, replicas = max(4, 2 * size), max(2, math.ceil(share * needed))
        if share < 1:
            replicas = int(share * needed)
        self.wanted = min(float(size), _FED * replicas * GPU.capacity / WORKER_ROWS)
        self._trainer = SimulatedTrainer(size * WORKER_POSITIONS)
        self._pods = Pods(self._random, POD_SECONDS)
        self._servers = Pods(self._random, REPLICA_SECONDS)
        self._hpas = Hpa(most), Hpa(replicas)
        self._rule = ScalingRule(ScalingSection(max_workers=most, max_inference=replicas))
        self._desired: Desired | None = None
        self._unripe: list[float] = []  # for each worker of which no game has ended: plies so far
        self._saved = 0  # workers' worth of games that no pod plays
        self._served = Served(0.0, 0.0, 0.0, 1.0)
        self._speeds: deque[float] = deque([0.0], maxlen=6)  # positions a second of a worker

    def run(self, hours: float) -> list[Sample]:
        """Let time pass."""
        self._pods.scale(0.0, 1)
        self._servers.scale(0.0, 1)
        samples: list[Sample] = []
        for number in range(1, round(hours * 3600 / TICK_SECONDS) + 1):
            now = number * TICK_SECONDS
            self._servers.arrive(now)
            new = self._pods.arrive(now)
            self._unripe += [0.0] * max(0, new - self._saved)
            self._saved = max(0, self._saved - new)
            self._trainer.tick(now, self._play())
            self._go_wrong(now)
            if number % LOOK_TICKS == 0:
                away = self._faults.silent[0] <= now < self._faults.silent[1]
                look = self._rule.look
                self._desired = self._rule.hold("away") if away else look(now, self._figures(now))
            if number % SYNC_TICKS == 0:
                self._sync(now)
                bucket, found = self._trainer.bucket, self._served
                counts = self._hpas[0].replicas, self._pods.up, self._servers.up
                means = found.batch_rows / GPU.max_rows, found.wait / found.compute
                drawn = self._trainer.waited, bucket.drawn, bucket.received
                samples.append(Sample(now, *counts, *means, *drawn))
        return samples

    def _play(self) -> float:
        """Positions of the games that ended in this tick."""
        workers, replicas = self._pods.up, self._servers.up
        if not workers or not replicas:
            return 0.0
        on_each = workers / replicas
        self._served = served(on_each, MESSAGE_ROWS / WORKER_ROWS, MESSAGE_ROWS, GPU)
        noise = self._random.normal(1.0, 0.02)
        plies = self._served.messages / on_each * MESSAGE_ROWS / PLY_ROWS * noise  # a second
        self._speeds.append(plies * PLY_POSITIONS)
        grown = (each + plies / GAMES * TICK_SECONDS for each in self._unripe)
        self._unripe = [each for each in grown if each < PLIES]
        return (workers - len(self._unripe)) * plies * PLY_POSITIONS * TICK_SECONDS

    def _go_wrong(self, now: float) -> None:
        faults, before, gone = self._faults, now - TICK_SECONDS, 0
        if now // faults.published_every > before // faults.published_every:
            self._trainer.publishes_until = now + PUBLISH_SECONDS
        if before < faults.halved_at <= now:
            self._trainer.speed /= 2
        if before < faults.storm_at <= now:
            gone = self._pods.up // 2
        share = faults.preempted_per_hour * TICK_SECONDS / 3600
        gone += int(self._random.binomial(self._pods.up - gone, share))
        self._pods.up -= gone
        self._saved += gone

    def _figures(self, now: float) -> FleetFigures:
        """As the heartbeats say it."""
        is_silent = now < self._trainer.publishes_until - PUBLISH_SECONDS / 2
        figures = DemandFigures() if is_silent else self._trainer.demand.figures()
        trains = figures.samples_per_second is not None
        workers, replicas, found = float(self._pods.up), float(self._servers.up), self._served
        rows = found.messages * MESSAGE_ROWS * replicas if workers else 0.0
        return FleetFigures(
            trainers=float(trains),
            samples_per_second=figures.samples_per_second or 0.0,
            reuse_target=figures.reuse_target if trains else 0.0,
            workers=workers,
            playing=workers,
            active=workers,
            positions_per_second=workers * float(np.mean(self._speeds)),
            replicas=replicas,
            rows_per_second=rows,
            capacity_rows_per_second=replicas * GPU.capacity * self._random.normal(1.0, 0.02),
            filled=found.batch_rows / GPU.max_rows * rows,
            waited=found.wait / found.compute * rows,
        )

    def _sync(self, now: float) -> None:
        """The HPAs look at their metrics; Deployments follow."""
        desired, (for_workers, for_inference) = self._desired, self._hpas
        for_workers.sync(now, desired and desired.selfplay.count)
        for_inference.sync(now, desired and desired.inference.count)
        self._saved += self._pods.scale(now, for_workers.replicas)
        self._servers.scale(now, for_inference.replicas)


def figures_of(simulation: Simulation, samples: list[Sample]) -> Row:
    """One line of the table; most figures are of the time since the fleet has its size."""
    start = _converged(simulation.wanted, samples)
    after = samples[start or 0 :]
    first, last = after[0], after[-1]
    paid = (last.received - first.received) * SAMPLES_PER_POSITION
    means = {
        name: float(np.mean([getattr(each, name) for each in after]))
        for name in ("workers", "replicas", "fill", "wait")
    }
    return means | {
        "size": simulation.size,
        "fault": simulation.fault,
        "wanted": simulation.wanted,
        "converged_minutes": None if start is None else first.seconds / 60,
        "trainer_waits": (last.waited - first.waited) / max(last.seconds - first.seconds, 1.0),
        "unused": max(0.0, 1 - (last.drawn - first.drawn) / paid) if paid else None,
        "reversals": _reversals([each.asked for each in after]),
    }


def _converged(wanted: float, samples: list[Sample]) -> int | None:
    """From where on the workers stay near what is wanted, for ten minutes at least."""
    low, high = math.floor(_LEAST_SHARE * wanted), math.ceil(_MOST_SHARE * wanted)
    since: int | None = None
    for number, sample in enumerate(samples):
        if not low <= sample.workers <= high:
            since = None
        elif since is None:
            since = number
        elif sample.seconds - samples[since].seconds >= _HOLDS_SECONDS:
            return since
    return None


def _reversals(asked: list[int]) -> int:
    """How often the number asked for turned round."""
    steps = [after > before for before, after in pairwise(asked) if after != before]
    return sum(one is not other for one, other in pairwise(steps))


_COLUMNS = {
    "demand": ("size", ",d"),
    "fault": ("fault", ""),
    "of use": ("wanted", ",.0f"),
    "converged, min": ("converged_minutes", ".0f"),
    "workers": ("workers", ",.1f"),
    "inference": ("replicas", ".1f"),
    "fill": ("fill", ".2f"),
    "wait/compute": ("wait", ".2f"),
    "trainer waits": ("trainer_waits", ".1%"),
    "unused": ("unused", ".1%"),
    "reversals": ("reversals", "d"),
}


def main() -> None:
    """Play the fleets through and print a line for each."""
    found = argparse.ArgumentParser(
        prog="python -m bench.scale_sim",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sizes = [1, 10, 100, 1_000, 10_000]
    found.add_argument("--sizes", type=positive(int), nargs="+", default=sizes)
    found.add_argument("--faults", choices=FAULTS, nargs="+", default=list(FAULTS))
    found.add_argument("--hours", type=positive(float), default=3.0, help="of each [3]")
    found.add_argument("--seed", type=int, default=1, help="equal seeds, equal figures [1]")
    found.add_argument("--json", action="store_true", help="one object a line")
    options = found.parse_args()
    rows: list[Row] = []
    for size in options.sizes:
        for fault in options.faults:
            if FAULTS[fault].replicas >= 1 or size >= 100:  # fewer need a single replica
                simulation = Simulation(size, fault, options.seed)
                rows.append(figures_of(simulation, simulation.run(options.hours)))
    show(rows, "scaling a fleet", _COLUMNS, as_json=options.json)


if __name__ == "__main__":
    run_main(main)
