"""The inference service, wired: stores, repository, batcher, wire, metrics, heartbeat."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator

import numpy as np
import structlog

from services.inference.backend import Backend
from services.inference.batcher import Batcher, BatchLimits
from services.inference.figures import Figures
from services.inference.metrics import InferenceCollector, serve_metrics
from services.inference.model import ModelLoader
from services.inference.player import ModelPlayer
from services.inference.repository import Repository
from services.inference.settings import InferenceSettings
from services.inference.source import StoredModels
from zerofleet import games, rpc
from zerofleet.best import BestPointer
from zerofleet.config import RunConfig
from zerofleet.database import Database
from zerofleet.heartbeat import Heartbeats
from zerofleet.models.folder import ModelFolder
from zerofleet.models.session import ModelSession
from zerofleet.service import beat, first_of

_log = structlog.get_logger()

_POLL_SECONDS = 0.2  # a promotion is seen this much later at most


async def serve(run: RunConfig, settings: InferenceSettings, stop: asyncio.Event) -> None:
    """Answer until ``stop`` is set; then finish what has come and return within seconds.

    Raises:
        ConfigError: the game is unknown, or an address cannot be bound.
    """
    with (
        Database(settings.database_url) as database,
        contextlib.closing(BestPointer(settings.redis_url, run.name)) as pointer,
        contextlib.closing(Heartbeats(settings.redis_url, run.name)) as heartbeats,
    ):
        source = StoredModels(run.name, database, pointer)
        loader = model_loader(run, settings)
        repository = Repository(run.name, source, loader, settings.inference_keep_models)
        async with batcher_for(run, repository) as batcher:
            await _answer(run, settings, repository, batcher, heartbeats, stop)


def model_loader(run: RunConfig, settings: InferenceSettings) -> ModelLoader:
    """Loads published models of the run's game."""
    spec = games.spec(run.game.name)
    folder = ModelFolder(settings.model_folder, run.name)
    return ModelLoader(
        folder.read_verified,
        lambda model_bytes: ModelSession(model_bytes, spec),
        run.inference.sessions,
        games.State(run.game.name).observation()[np.newaxis],
    )


def batcher_for(run: RunConfig, repository: Repository) -> Batcher:
    """The batcher that the run file asks for; models it finds broken leave the repository."""
    section = run.inference
    limits = BatchLimits(section.max_batch_rows, section.max_queue_rows, threads=section.sessions)
    return Batcher(limits, repository.mark_bad)


async def _answer(
    run: RunConfig,
    settings: InferenceSettings,
    repository: Repository,
    batcher: Batcher,
    heartbeats: Heartbeats,
    stop: asyncio.Event,
) -> None:
    spec = games.spec(run.game.name)
    shape = rpc.ModelShape(spec.observation_bytes, spec.num_actions, run.inference.max_batch_rows)
    backend = Backend(repository, batcher, shape)
    figures = Figures(batcher, repository)
    player = ModelPlayer(run.game.name, run.search, repository, batcher)
    with _metrics(settings, batcher, repository):
        async with rpc.serve(
            settings.listen_address,
            inference=backend,
            player=player,
            reflection=settings.reflection,
        ) as server:
            _log.info("serving", address=settings.listen_address, port=server.port, run=run.name)
            await first_of(
                stop.wait(),
                repository.follow_best(_POLL_SECONDS),
                _keep_health(server, backend),
                beat(heartbeats, "inference", settings.worker_name, figures.pulse),
            )
            _log.info("draining", queue_rows=batcher.queue_rows)
            await server.drain(settings.inference_drain_seconds)
    _log.info("stopped")


async def _keep_health(server: rpc.Server, backend: Backend) -> None:
    """SERVING as soon as the best model is loaded."""
    while True:
        await server.set_serving(backend.ready())
        await asyncio.sleep(_POLL_SECONDS / 2)


@contextlib.contextmanager
def _metrics(
    settings: InferenceSettings, batcher: Batcher, repository: Repository
) -> Generator[None]:
    if settings.metrics_address is None:
        yield
        return
    server = serve_metrics(settings.metrics_address, InferenceCollector(batcher, repository))
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
