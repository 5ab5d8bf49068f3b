"""Simulate how well the autoscaler sizes a fleet, with the scaling rule that runs on clusters.

A fleet starts with one worker and one inference replica. Its trainer can use the positions of 1 to
10,000 workers. Pods take a while to start. Faults are injected: preemption, a loss of half of the
pods, pauses of the trainer while it publishes a model, and five minutes without heartbeats.

KEDA and the HorizontalPodAutoscaler (HPA) are modelled after their documentation. lab/scaling.md
lists everything that is modelled, and has the results.
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
OBSERVE_TICKS = 2  # interval of the autoscaler
SYNC_TICKS = 3  # interval of the HPA, at which KEDA asks the autoscaler
POD_SECONDS, REPLICA_SECONDS = (20.0, 60.0), (60.0, 120.0)  # shortest and longest time to start
PUBLISH_SECONDS = 20.0  # the trainer pauses; in the first half it sends no heartbeats

WORKER_ROWS = 4_000  # rows per second of a worker that never waits; it has a quarter of a core
MESSAGE_ROWS = 256
PLY_ROWS = 50
PLY_POSITIONS = 0.2375  # training positions per ply
GAMES, PLIES = 512, 60  # games that a worker plays at the same time, and the plies of a game
WORKER_POSITIONS = WORKER_ROWS / PLY_ROWS * PLY_POSITIONS
"""Training positions per second of a worker that never waits."""
SAMPLES_PER_POSITION, BATCH_SIZE, LEAST_POSITIONS = 4.0, 256, 2_000  # as in a run file

TOLERANCE = 0.1
"""Tolerance of the HPA: a metric closer to its target than this changes nothing."""
UP_SHARE, DOWN_SHARE = 1.0, 0.25
"""Largest growth and shrinkage of a Deployment in ``PERIOD_SECONDS``, as shares of its replicas."""
PERIOD_SECONDS, STABILIZATION_SECONDS = 60.0, 300.0

_USABLE_CAPACITY = 0.95  # share of inference's capacity; workers beyond it are useless
# The fleet has converged when its workers stay between these shares of the ideal for this time.
_CONVERGED_SECONDS, _LEAST_SHARE, _MOST_SHARE = 600.0, 0.8, 1.25


GPU = BatchCost(fixed=0.5e-3, per_row=9.3e-6)
"""An assumed GPU: 100,000 rows per second in full batches, with a typical launch cost."""


class Hpa:
    """A HorizontalPodAutoscaler with a metric whose target is 1 for each replica.

    Args:
        most: maximum number of replicas.
        replicas: number of replicas at the start.
    """

    def __init__(self, most: int, replicas: int = 1) -> None:
        self._most = most
        self._advice: deque[tuple[float, int]] = deque()
        self._changes: deque[tuple[float, int]] = deque()
        self.replicas = replicas

    def sync(self, now: float, metric: int | None) -> None:
        """Update ``replicas``.

        Args:
            now: seconds since the start.
            metric: value of the metric; None: it is missing, and nothing changes.
        """
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
    """The pods of a Deployment, which take a while to start.

    Args:
        random: draws the time that each pod takes to start.
        seconds: shortest and longest of these times.
    """

    def __init__(self, random: np.random.Generator, seconds: tuple[float, float]) -> None:
        self._random, self._seconds = random, seconds
        self._starting: list[float] = []  # time at which each will be running
        self.running = 0

    def start_up(self, now: float) -> int:
        """Let pods become ready; return how many have since the last call.

        Args:
            now: seconds since the start.
        """
        before = len(self._starting)
        self._starting = [at for at in self._starting if at > now]
        self.running += before - len(self._starting)
        return before - len(self._starting)

    def scale(self, now: float, replicas: int) -> int:
        """Set the number of pods; return how many running pods are stopped.

        Running pods are stopped only if there are too many of them even without the starting ones.

        Args:
            now: seconds since the start.
            replicas: number of running and starting pods afterwards.
        """
        stopped = max(0, self.running - replicas)
        self.running -= stopped
        self._starting = self._starting[: replicas - self.running]
        missing = replicas - self.running - len(self._starting)
        self._starting += [now + each for each in self._random.uniform(*self._seconds, missing)]
        return stopped


class SimulatedTrainer:
    """Trains as much as its positions allow, in simulated time.

    The train bucket and ``Demand`` are the trainer's own.

    Args:
        positions_per_second: positions that it could use.
    """

    def __init__(self, positions_per_second: float) -> None:
        self.speed = SAMPLES_PER_POSITION * positions_per_second  # samples per second
        self._window = max(50_000, round(3_600 * positions_per_second))
        self.bucket = TrainBucket(SAMPLES_PER_POSITION)
        self._now = 0.0
        self.demand = Demand(self.bucket, lambda: self._now)
        self.publishes_until = 0.0
        self._partial = 0.0  # samples already processed of the current batch
        self.waited = 0.0  # total seconds

    def tick(self, now: float, positions: float) -> None:
        """Receive positions and train for one tick.

        Args:
            now: end of the tick, in seconds since the start.
            positions: positions of the games that ended in the tick.
        """
        bucket, begin = self.bucket, now - TICK_SECONDS
        bucket.pay(round(positions))
        bucket.limit(min(bucket.received, self._window), BATCH_SIZE)
        self._now = begin
        self.demand.turn(hungry=False)
        left = TICK_SECONDS - max(0.0, min(now, self.publishes_until) - begin)
        budget = self._partial + self.speed * left
        allowed = bucket.samples if bucket.received >= LEAST_POSITIONS else 0.0
        samples = int(min(allowed, budget) // BATCH_SIZE) * BATCH_SIZE
        bucket.draw(samples)
        hungry = allowed - samples < BATCH_SIZE
        # A batch that is not finished continues in the next tick. Without a batch, the trainer
        # waits.
        self._partial = 0.0 if hungry else budget - samples
        waits = min(left, (budget - samples) / self.speed) if hungry else 0.0
        self.waited += waits
        self._now = now - waits
        self.demand.turn(hungry=waits > 0)
        self._now = now


@dataclass(frozen=True, slots=True)
class Faults:
    """Faults of one simulation; times are in seconds since the start."""

    preempted_per_hour: float = 0.0  # share of the pods, at random times
    storm_at: float = math.inf  # half of the pods are killed at once
    published_every: float = math.inf  # seconds between two models
    halved_at: float = math.inf  # from then on, the trainer draws half as many samples
    silent: tuple[float, float] = (math.inf, math.inf)  # start and end of an outage of Redis
    replicas: float = 2.0
    """Upper limit of inference, as a multiple of the replicas that all workers would need."""


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
    """State of the fleet at one time."""

    seconds: float  # since the start
    desired: int  # workers that the HPA requests
    workers: int  # running
    replicas: int  # running
    fill: float  # rows of a batch / most rows
    wait: float  # wait of a message / computation of a batch
    waited: float  # seconds that the trainer has waited so far
    drawn: int  # samples that it has drawn so far
    received: int  # positions that it has received so far


class Simulation:
    """A fleet whose trainer can use the positions of ``size`` workers.

    Args:
        size: demand of the trainer, in workers that never wait.
        fault: one of ``FAULTS``.
        seed: seed of all random times and of the noise.
    """

    def __init__(self, size: int, fault: str, seed: int) -> None:
        self.size, self.fault, self._faults = size, fault, FAULTS[fault]
        self._random = np.random.default_rng(seed)
        needed, share = size * WORKER_ROWS / GPU.capacity, self._faults.replicas
        most, replicas = max(4, 2 * size), max(2, math.ceil(share * needed))
        if share < 1:
            replicas = int(share * needed)
        self.wanted = min(float(size), _USABLE_CAPACITY * replicas * GPU.capacity / WORKER_ROWS)
        self._trainer = SimulatedTrainer(size * WORKER_POSITIONS)
        self._pods = Pods(self._random, POD_SECONDS)
        self._servers = Pods(self._random, REPLICA_SECONDS)
        self._hpas = Hpa(most), Hpa(replicas)
        self._rule = ScalingRule(ScalingSection(max_workers=most, max_inference=replicas))
        self._desired: Desired | None = None
        # Plies so far of each worker without a finished game. Its games started together, so it
        # returns no positions before they end.
        self._new_workers: list[float] = []
        self._saved = 0  # saved games that no pod plays, counted in workers
        self._served = Served(0.0, 0.0, 0.0, 1.0)
        self._speeds: deque[float] = deque([0.0], maxlen=6)  # positions per second of a worker

    def run(self, hours: float) -> list[Sample]:
        """Simulate this many hours; return a sample for each synchronization of the HPA."""
        self._pods.scale(0.0, 1)
        self._servers.scale(0.0, 1)
        samples: list[Sample] = []
        for number in range(1, round(hours * 3600 / TICK_SECONDS) + 1):
            now = number * TICK_SECONDS
            self._servers.start_up(now)
            new = self._pods.start_up(now)
            self._new_workers += [0.0] * max(0, new - self._saved)
            self._saved = max(0, self._saved - new)
            self._trainer.tick(now, self._play())
            self._inject_faults(now)
            if number % OBSERVE_TICKS == 0:
                if self._faults.silent[0] <= now < self._faults.silent[1]:
                    self._desired = self._rule.hold("Redis is down")
                else:
                    self._desired = self._rule.look(now, self._figures(now))
            if number % SYNC_TICKS == 0:
                self._sync(now)
                bucket, found = self._trainer.bucket, self._served
                counts = self._hpas[0].replicas, self._pods.running, self._servers.running
                means = found.batch_rows / GPU.max_rows, found.wait / found.compute
                drawn = self._trainer.waited, bucket.drawn, bucket.received
                samples.append(Sample(now, *counts, *means, *drawn))
        return samples

    def _play(self) -> float:
        """Play for one tick; return the training positions of the games that ended."""
        workers, replicas = self._pods.running, self._servers.running
        if not workers or not replicas:
            return 0.0
        on_each = workers / replicas
        self._served = served(on_each, MESSAGE_ROWS / WORKER_ROWS, MESSAGE_ROWS, GPU)
        noise = self._random.normal(1.0, 0.02)
        plies = self._served.messages / on_each * MESSAGE_ROWS / PLY_ROWS * noise  # per second
        self._speeds.append(plies * PLY_POSITIONS)
        grown = (each + plies / GAMES * TICK_SECONDS for each in self._new_workers)
        self._new_workers = [each for each in grown if each < PLIES]
        return (workers - len(self._new_workers)) * plies * PLY_POSITIONS * TICK_SECONDS

    def _inject_faults(self, now: float) -> None:
        faults, before, killed = self._faults, now - TICK_SECONDS, 0
        if now // faults.published_every > before // faults.published_every:
            self._trainer.publishes_until = now + PUBLISH_SECONDS
        if before < faults.halved_at <= now:
            self._trainer.speed /= 2
        if before < faults.storm_at <= now:
            killed = self._pods.running // 2
        share = faults.preempted_per_hour * TICK_SECONDS / 3600
        killed += int(self._random.binomial(self._pods.running - killed, share))
        self._pods.running -= killed
        self._saved += killed

    def _figures(self, now: float) -> FleetFigures:
        """Return the figures that the autoscaler reads from the heartbeats."""
        is_silent = now < self._trainer.publishes_until - PUBLISH_SECONDS / 2
        figures = DemandFigures() if is_silent else self._trainer.demand.figures()
        trains = figures.samples_per_second is not None
        workers, replicas, found = (
            float(self._pods.running),
            float(self._servers.running),
            self._served,
        )
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
        """Let the HPAs read their metrics and scale the Deployments."""
        desired, (for_workers, for_inference) = self._desired, self._hpas
        for_workers.sync(now, desired and desired.selfplay.count)
        for_inference.sync(now, desired and desired.inference.count)
        self._saved += self._pods.scale(now, for_workers.replicas)
        self._servers.scale(now, for_inference.replicas)


def figures_of(simulation: Simulation, samples: list[Sample]) -> Row:
    """Return the row of a simulation.

    Means and sums start when the fleet has converged, or at its start if it never does.

    Args:
        simulation: a simulation after its ``run``.
        samples: the samples of the run.
    """
    start = _converged(simulation.wanted, samples)
    after = samples[start or 0 :]
    first, last = after[0], after[-1]
    allowed = (last.received - first.received) * SAMPLES_PER_POSITION
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
        "unused": max(0.0, 1 - (last.drawn - first.drawn) / allowed) if allowed else None,
        "reversals": _reversals([each.desired for each in after]),
    }


def _converged(wanted: float, samples: list[Sample]) -> int | None:
    """Return the first sample from which the workers stay near the wanted number for ten minutes.

    Args:
        wanted: ideal number of workers.
        samples: all samples.

    Returns:
        The index of the sample; None if the workers never stay there.
    """
    low, high = math.floor(_LEAST_SHARE * wanted), math.ceil(_MOST_SHARE * wanted)
    since: int | None = None
    for number, sample in enumerate(samples):
        if not low <= sample.workers <= high:
            since = None
        elif since is None:
            since = number
        elif sample.seconds - samples[since].seconds >= _CONVERGED_SECONDS:
            return since
    return None


def _reversals(desired: list[int]) -> int:
    """Return how often the desired number changed between growing and shrinking."""
    steps = [after > before for before, after in pairwise(desired) if after != before]
    return sum(one is not other for one, other in pairwise(steps))


_COLUMNS = {
    "demand": ("size", ",d"),
    "fault": ("fault", ""),
    "useful workers": ("wanted", ",.0f"),
    "converged, min": ("converged_minutes", ".0f"),
    "workers": ("workers", ",.1f"),
    "inference": ("replicas", ".1f"),
    "fill": ("fill", ".2f"),
    "wait/compute": ("wait", ".2f"),
    "trainer waits": ("trainer_waits", ".1%"),
    "samples unused": ("unused", ".1%"),
    "reversals": ("reversals", "d"),
}


def main() -> None:
    """Simulate the fleets and print a row for each."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.scale_sim",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sizes = [1, 10, 100, 1_000, 10_000]
    parser.add_argument(
        "--sizes",
        type=positive(int),
        nargs="+",
        default=sizes,
        help="demands of the trainer, in workers [1 10 100 1000 10000]",
    )
    parser.add_argument(
        "--faults", choices=FAULTS, nargs="+", default=list(FAULTS), help="faults to simulate [all]"
    )
    parser.add_argument(
        "--hours", type=positive(float), default=3.0, help="simulated hours of each fleet [3]"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="seed; the same seed gives the same results [1]"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    options = parser.parse_args()
    rows: list[Row] = []
    for size in options.sizes:
        for fault in options.faults:
            if FAULTS[fault].replicas >= 1 or size >= 100:  # smaller fleets need one replica
                simulation = Simulation(size, fault, options.seed)
                rows.append(figures_of(simulation, simulation.run(options.hours)))
    show(rows, "Simulated scaling of a fleet", _COLUMNS, as_json=options.json)


if __name__ == "__main__":
    run_main(main)
