"""The trainer service, wired: stores, folders, the loop, the metrics."""

from __future__ import annotations

import os
import socket
from threading import Event

from services.trainer.checkpoints import CheckpointFolder
from services.trainer.trainer import Places, Trainer
from zerofleet import games, telemetry
from zerofleet.config import ProcessSettings, RunConfig
from zerofleet.database import Database
from zerofleet.heartbeat import Heartbeats
from zerofleet.models.folder import ModelFolder


def serve(run: RunConfig, settings: ProcessSettings, stop: Event) -> None:
    """Train until told to stop.

    Raises:
        ConfigError: a person must mend something; the message says what.
        StaleEpochError: another trainer has taken over this run.
        IncompatibleModelError: the first model cannot be published.
    """
    spec = games.spec(run.game.name)
    telemetry.configure("trainer", level=settings.log_level)
    with Database(settings.database_url) as database:
        places = Places(
            database=database,
            heartbeats=Heartbeats(settings.redis_url, run.name),
            models=ModelFolder(settings.model_folder, run.name),
            checkpoints=CheckpointFolder(settings.checkpoint_folder / run.name),
            worker=settings.worker or f"{socket.gethostname()}-{os.getpid()}",
        )
        trainer = Trainer(run, spec, places, stop)
        if settings.metrics_address is None:
            trainer.run()
            return
        from services.trainer.exporter import serve_figures  # only who wants it pays for it

        end_metrics = serve_figures(settings.metrics_address, trainer.figures)
        try:
            trainer.run()
        finally:
            end_metrics()
