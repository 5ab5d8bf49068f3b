"""The trainer service, wired: stores, folders, the loop, the metrics."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from threading import Event

import torch

from services.trainer.checkpoints import CheckpointFolder
from services.trainer.learner import Learner
from services.trainer.team import ProcessTeam, Team, is_started_by_torchrun
from services.trainer.trainer import Places, Trainer
from zerofleet import games, telemetry
from zerofleet.config import ProcessSettings, RunConfig
from zerofleet.database import Database
from zerofleet.errors import ZerofleetError
from zerofleet.heartbeat import Heartbeats
from zerofleet.models.store import open_store
from zerofleet.rpc.health import HealthServer
from zerofleet.service import served_metrics

# A step of a large network on a slow machine, or making a model's variants, is no standstill.
STUCK_SECONDS = 600.0


def serve(run: RunConfig, settings: ProcessSettings, stop: Event) -> None:
    """Train until told to stop: alone, or as one of the processes that torchrun started.

    Raises:
        ConfigError: a person must mend something; the message says what.
        StaleEpochError: another trainer has taken over this run.
        IncompatibleModelError: the first model cannot be published.
    """
    telemetry.configure("trainer", level=settings.log_level)
    if not is_started_by_torchrun():
        lead(run, settings, stop, Team())
        return
    with ProcessTeam(run.trainer.batch_size) as team:
        if team.rank == 0:
            lead(run, settings, stop, team)
        else:
            follow(run, team)


def lead(run: RunConfig, settings: ProcessSettings, stop: Event, team: Team) -> None:
    """Be the process that has the database; the others leave with it.

    Raises:
        ZerofleetError: as ``serve`` says.
    """
    spec = games.spec(run.game.name)
    with (
        HealthServer(settings.health_address, stuck_seconds=STUCK_SECONDS) as health,
        Database(settings.database_url) as database,
    ):
        places = Places(
            database=database,
            heartbeats=TickingHeartbeats(settings.redis_url, run.name, health),
            models=open_store(settings, run.name, run.inference.max_batch_rows),
            checkpoints=CheckpointFolder(settings.checkpoint_folder / run.name),
            worker=settings.worker or f"{socket.gethostname()}-{os.getpid()}",
        )
        try:
            trainer = Trainer(run, spec, places, stop, team)
            _run(trainer, settings.metrics_address)
        except ZerofleetError:
            team.dismiss()
            raise
        # After an error of another kind the others may be in the middle of a step, where they
        # would not hear this: they end when the connection does.
        team.dismiss()


class TickingHeartbeats(Heartbeats):
    """Heartbeats that are ticks for health too: the loop beats wherever it may be."""

    def __init__(self, redis_url: str, run: str, health: HealthServer) -> None:
        super().__init__(redis_url, run)
        self._health = health

    def beat(
        self,
        service: str,
        worker: str,
        progress: int,
        waiting_for: str,
        figures: Mapping[str, float],
        ttl: float = 10.0,
    ) -> None:
        """See ``Heartbeats.beat``."""
        self._health.tick()
        super().beat(service, worker, progress, waiting_for, figures, ttl)


def follow(run: RunConfig, team: ProcessTeam) -> None:
    """Be one of the others: train as the leader says, without database or folders."""
    spec = games.spec(run.game.name)
    torch.set_num_threads(run.trainer.threads)
    team.follow(Learner(spec, run, team), (spec.observation_bytes, spec.num_actions))


def _run(trainer: Trainer, metrics_address: str | None) -> None:
    if metrics_address is None:
        trainer.run()
        return
    from services.trainer.exporter import FigureCollector  # only who wants it pays for it

    with served_metrics(metrics_address, FigureCollector(trainer.figures)):
        trainer.run()
