"""The self-play service: a worker with its connections, until SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from zerofleet.best_pointer import BestPointer
from zerofleet.client import AsyncModel
from zerofleet.config import RunConfig, check_request_size
from zerofleet.database import SelfplayDatabase
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.rpc.health import HealthServer
from zerofleet.rpc.tls import client_credentials
from zerofleet.service import first_of, served_metrics
from zerofleet.services.selfplay.best_version_predictor import BestVersionPredictor
from zerofleet.services.selfplay.settings import SelfplaySettings
from zerofleet.services.selfplay.worker import Worker


async def serve(run: RunConfig, settings: SelfplaySettings, stop: asyncio.Event) -> None:
    """Play until ``stop`` is set; then keep everything and return within seconds.

    Raises:
        ConfigError: the run file asks for more than the inference service takes, or an address or
            a file of credentials cannot be used.
        AccessDeniedError: the inference service refuses this worker.
    """
    check_request_size(run)
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

    with served_metrics(settings.metrics_address, lambda: WorkerCollector(worker)):
        await worker.run(stop, *tasks)


_METRIC_PREFIX = "zerofleet_selfplay"
_COUNTED = {
    "games": "Games finished.",
    "resigned_games": "Games that a player gave up, of those finished.",
    "plies": "Moves chosen by search.",
    "positions": "Positions that the network predicted.",
    "simulations": "Simulations run.",
    "cache_hits": "Predictions found in the cache.",
}


class WorkerCollector(Collector):
    """Collects a worker's counts at each scrape."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def collect(self) -> Iterator[Metric]:
        """Yield counters of play and of delivery, and the current size of the spool."""
        for name, value in asdict(self._worker.totals()).items():
            yield CounterMetricFamily(f"{_METRIC_PREFIX}_{name}", _COUNTED[name], value=value)
        answers = CounterMetricFamily(
            f"{_METRIC_PREFIX}_answers", "Postgres' answers to finished games.", labels=["answer"]
        )
        for answer, count in dict(self._worker.writer.answers).items():
            answers.add_metric([answer], count)
        yield answers
        yield GaugeMetricFamily(
            f"{_METRIC_PREFIX}_spool_games",
            "Finished games that are not stored yet.",
            value=self._worker.writer.spooled,
        )
        figures = self._worker.figures
        for name, text, value in (
            (
                "training_positions_per_second",
                "Positions to train on that come of its simulations.",
                figures.training_positions_per_second,
            ),
            (
                "waiting_share",
                "Share of the last half minute in which it waited for another service.",
                figures.waiting_share,
            ),
            (
                "pause_share",
                "Share of the last half minute in which it let the trainer catch up.",
                figures.pause_share,
            ),
        ):
            yield GaugeMetricFamily(f"{_METRIC_PREFIX}_{name}", text, value=value)
        threshold = self._worker.resignation.threshold
        resign = GaugeMetricFamily(
            f"{_METRIC_PREFIX}_resign_threshold",
            "Value below which games that begin now are resigned; absent while no player resigns.",
        )
        if threshold is not None:
            resign.add_metric([], threshold)
        yield resign
