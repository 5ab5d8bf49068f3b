"""One scenario, played through: a fleet, its faults, and what sizes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from bench.scale_batches import Cost
from bench.scale_cluster import Behavior, Deployment, Hpa
from bench.scale_events import Events
from bench.scale_play import Fleet as Players
from bench.scale_play import Play
from bench.scale_trainer import Trainer, Training
from bench.scale_ways import Way
from zerofleet.fleet import FleetFigures

TICK_SECONDS = 5.0
LOOK_SECONDS = 10.0
SYNC_SECONDS = 15.0  # of the HPA, which has KEDA ask for the metric each time
SAMPLE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong, and when; seconds since the start."""

    preempted_per_hour: float = 0.0
    """Share of the pods that get SIGTERM, at times of chance."""
    storm_at: float | None = None
    """Half of the pods are killed at once."""
    replica_lost_at: float | None = None
    published_every: float | None = None
    halved_at: float | None = None
    """The trainer draws half as much from then on."""
    silent: tuple[float, float] | None = None
    """Redis (or Prometheus) is away from, until."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A fleet and its trainer."""

    name: str
    play: Play
    cost: Cost
    training: Training
    wanted: float
    """Workers that are of use."""
    most_workers: int
    most_replicas: int
    faults: Faults = Faults()
    seconds: float = 10_800.0
    start_seconds: tuple[float, float] = (20.0, 60.0)
    replica_start_seconds: tuple[float, float] = (60.0, 120.0)
    seed: int = 1


@dataclass(slots=True)
class Trace:
    """What was seen, every quarter of a minute."""

    seconds: list[float] = field(default_factory=list[float])
    asked: list[int] = field(default_factory=list[int])
    workers: list[int] = field(default_factory=list[int])
    replicas: list[int] = field(default_factory=list[int])
    fill: list[float] = field(default_factory=list[float])
    wait: list[float] = field(default_factory=list[float])
    # Since the start: seconds that the trainer lacked positions, samples drawn and paid for.
    waited: list[float] = field(default_factory=list[float])
    drawn: list[float] = field(default_factory=list[float])
    paid: list[float] = field(default_factory=list[float])


class World:
    """Everything at its time."""

    def __init__(self, scenario: Scenario, way: Way) -> None:
        self._scenario, self._way = scenario, way
        self._events = events = Events()
        self._random = random = np.random.default_rng(scenario.seed)
        slots = round(1.2 * scenario.most_workers) + 8
        self.players = Players(scenario.play, scenario.cost, slots, random)
        self.trainer = Trainer(scenario.training)
        self._pods = Deployment(
            events,
            random,
            scenario.start_seconds,
            lambda: self._expect(self.players.start(events.now)),
            partial(self.players.stop, lost_plies=0.5),
        )
        self._servers = Deployment(
            events,
            random,
            scenario.replica_start_seconds,
            lambda: None,
            lambda count: None,
        )
        bounds = (scenario.most_workers, self._pods), (scenario.most_replicas, self._servers)
        self._hpas = [
            (Hpa(Behavior(most, down_stabilization_seconds=way.settle_seconds), 1), deployment)
            for most, deployment in bounds
        ]
        self.trace = Trace()

    def run(self) -> Trace:
        """Let the scenario's time pass."""
        events, faults = self._events, self._scenario.faults
        for _, deployment in self._hpas:
            deployment.scale(1)
        events.every(TICK_SECONDS, self._tick)
        events.every(LOOK_SECONDS, self._look)
        events.every(SYNC_SECONDS, self._sync)
        events.every(SAMPLE_SECONDS, self._sample)
        if faults.published_every:
            events.every(faults.published_every, self.trainer.publish)
        self._at(faults.storm_at, self._storm)
        self._at(faults.replica_lost_at, self._lose_replica)
        self._at(faults.halved_at, self.trainer.halve)
        if faults.preempted_per_hour:
            events.every(TICK_SECONDS, self._preempt)
        events.run(self._scenario.seconds)
        return self.trace

    def _at(self, seconds: float | None, run: Callable[[], None]) -> None:
        if seconds is not None:
            self._events.after(seconds, run)

    @staticmethod
    def _expect(room: bool) -> None:
        assert room, "the simulation has too few slots"

    def _tick(self) -> None:
        now, players, trainer = self._events.now, self.players, self.trainer
        players.replicas = max(1, self._servers.up)
        players.paused = trainer.holds_up_play
        positions = players.tick(now, TICK_SECONDS) if self._servers.up else 0.0
        if positions:
            trainer.receive(positions)
        trainer.tick(now, TICK_SECONDS)

    def _fleet(self) -> FleetFigures:
        """As the heartbeats say it."""
        players, servers = self.players, float(self._servers.up)
        workers = float(players.workers)
        figures = {} if self.trainer.is_silent() else self.trainer.figures()
        trains = "samples_per_second" in figures
        rows = players.rows_per_second if workers and not players.paused else 0.0
        noise = self._random.normal(1.0, 0.02)
        return FleetFigures(
            trainers=float(trains),
            samples_per_second=figures.get("samples_per_second", 0.0),
            reuse_target=figures["reuse_target"] if trains else 0.0,
            workers=workers,
            playing=workers,
            active=0.0 if players.paused else workers,
            paused=workers if players.paused else 0.0,
            positions_per_second=players.positions_per_second(TICK_SECONDS),
            replicas=servers,
            rows_per_second=rows,
            capacity_rows_per_second=servers * self._scenario.cost.capacity * noise,
            filled=players.filled,
            waited=players.waited,
        )

    def _look(self) -> None:
        now, silent = self._events.now, self._scenario.faults.silent
        away = silent is not None and silent[0] <= now < silent[1]
        self._way.look(now, None if away else self._fleet())

    def _sync(self) -> None:
        for (hpa, deployment), metric in zip(self._hpas, self._way.metrics(), strict=True):
            hpa.sync(self._events.now, metric, 1.0)
            deployment.scale(hpa.replicas)

    def _sample(self) -> None:
        trace, players = self.trace, self.players
        rows = max(players.rows_per_second, 1e-9)
        trace.seconds.append(self._events.now)
        trace.asked.append(self._hpas[0][0].replicas)
        trace.workers.append(players.workers)
        trace.replicas.append(self._servers.up)
        trace.fill.append(players.filled / rows)
        trace.wait.append(players.waited / rows)
        trace.waited.append(self.trainer.waited)
        trace.drawn.append(self.trainer.drawn)
        trace.paid.append(self.trainer.received * self._scenario.training.samples_per_position)

    def _preempt(self) -> None:
        share = self._scenario.faults.preempted_per_hour * TICK_SECONDS / 3600
        gone = int(self._random.binomial(self._pods.up, share))
        if gone:
            self.players.stop(gone, lost_plies=0.5)
            self._pods.lose(gone)

    def _storm(self) -> None:
        gone = self._pods.up // 2
        self.players.stop(gone, lost_plies=8.0)
        self._pods.lose(gone)

    def _lose_replica(self) -> None:
        if self._servers.up > 1:
            self.players.lose_replica(self._events.now)
            self._servers.lose(1)
