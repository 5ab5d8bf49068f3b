"""The self-play service: a worker with its connections, until SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from zerofleet.best_pointer import BestPointer
from zerofleet.client import AsyncModel
from zerofleet.config import RunConfig, check_messages
from zerofleet.database import SelfplayDatabase
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.rpc.health import HealthServer
from zerofleet.rpc.tls import client_credentials
from zerofleet.service import first_of, served_metrics
from zerofleet.services.selfplay.best_version_predictor import BestVersionPredictor
from zerofleet.services.selfplay.settings import SelfplaySettings
from zerofleet.services.selfplay.worker import Worker

if TYPE_CHECKING:
    from prometheus_client.registry import Collector


async def serve(run: RunConfig, settings: SelfplaySettings, stop: asyncio.Event) -> None:
    """Play until ``stop`` is set; then keep everything and return within seconds.

    Raises:
        ConfigError: the run file asks for more than the inference service takes, or an address or
            a file of credentials cannot be used.
        AccessDeniedError: the inference service refuses this worker.
    """
    check_messages(run)
    with HealthServer(settings.health_address) as health:
        await first_of(health.keep_ticking(), _play(run, settings, stop))


async def _play(run: RunConfig, settings: SelfplaySettings, stop: asyncio.Event) -> None:
    with (
        contextlib.closing(Heartbeats(settings.redis_url, run.name)) as heartbeats,
        SelfplayDatabase(settings.database_url) as database,
    ):
        async with (
            AsyncModel(
                settings.inference_address, run.name, **client_credentials(settings)
            ) as model,
            model.stream() as stream,
        ):
            if not settings.versions_by_number:
                await _work(Worker(run, settings, database, heartbeats, stream), settings, stop)
                return
            with contextlib.closing(BestPointer(settings.redis_url, run.name)) as pointer:
                best = BestVersionPredictor(
                    run.name, stream, model, partial(pointer.newest, database)
                )
                worker = Worker(run, settings, database, heartbeats, best)
                await _work(worker, settings, stop, best.follow())


async def _work(
    worker: Worker,
    settings: SelfplaySettings,
    stop: asyncio.Event,
    *tasks: Coroutine[Any, Any, object],
) -> None:
    def collector() -> Collector:
        from zerofleet.services.selfplay.metrics import WorkerCollector

        return WorkerCollector(worker)

    with served_metrics(settings.metrics_address, collector):
        await worker.run(stop, *tasks)
