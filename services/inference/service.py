"""Wires the inference service: stores, models, batcher, gRPC server, metrics, heartbeat."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence

import numpy as np
import structlog
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from zerofleet import games
from zerofleet.best_pointer import BestPointer
from zerofleet.config import RunConfig
from zerofleet.database import InferenceDatabase
from zerofleet.fleet.figures import InferenceFigures
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.models.fastest import fastest_model
from zerofleet.models.model_store import open_store
from zerofleet.models.runtime import FAST_PRECISIONS, Provider, prune_engines
from zerofleet.models.session import ModelSession, open_session
from zerofleet.rpc.access import Limits
from zerofleet.rpc.codec import RequestShape
from zerofleet.rpc.health import HealthServer
from zerofleet.rpc.server import Server
from zerofleet.rpc.tls import ServerCredentials
from zerofleet.search_configs import client_simulations
from zerofleet.service import Pulse, beat, first_of, give_memory_back, served_metrics
from zerofleet.services.inference.backend import Backend
from zerofleet.services.inference.batcher import Batcher, BatchLimits, Histogram
from zerofleet.services.inference.devices import (
    active_provider,
    numbers,
    runs_on_text,
    serve_several,
    sessions_of,
)
from zerofleet.services.inference.loaded_models import ModelLoader, Precisions
from zerofleet.services.inference.model_player import ModelPlayer
from zerofleet.services.inference.recent_load import Load
from zerofleet.services.inference.served_models import ServedModels, StoredModels
from zerofleet.services.inference.settings import InferenceSettings

_log = structlog.get_logger()

_POLL_SECONDS = 0.2  # a promotion is seen this much later at most
_VARIANTS_SECONDS = 5.0  # and a variant that could not be looked up or loaded this much
_CPU_ROWS = 64


async def serve(run: RunConfig, settings: InferenceSettings, stop: asyncio.Event) -> None:
    """Answer until ``stop`` is set; then finish what has come and return within seconds.

    Raises:
        ConfigError: the game is unknown, an address cannot be bound, or what the run file wants to
            compute on is not there.
        SystemExit: of several processes, one for each device, one ended; or fp32 failed again and
            again.
    """
    devices = numbers(settings.devices)
    if len(devices) > 1:
        await _answer_together(run, settings, devices, stop)
        return
    provider = await asyncio.to_thread(active_provider, run, settings)
    with (
        InferenceDatabase(settings.database_url) as database,
        contextlib.closing(BestPointer(settings.redis_url, run.name)) as pointer,
        contextlib.closing(Heartbeats(settings.redis_url, run.name)) as heartbeats,
    ):
        source = StoredModels(run.name, database, pointer)
        models = ServedModels(
            run.name,
            source,
            model_loader(run, settings, provider),
            settings.inference_keep_models,
            precisions_for(run, provider),
        )
        with contextlib.closing(models):
            async with batcher_for(run, models, provider) as batcher:
                await _answer(run, settings, models, batcher, heartbeats, provider, stop)


async def _answer_together(
    run: RunConfig, settings: InferenceSettings, devices: Sequence[int], stop: asyncio.Event
) -> None:
    """Be the parent of the processes that answer; its heartbeat only says that it is there."""
    runs_on = f"GPUs {', '.join(map(str, devices))}, one process per GPU; the log has their sizes"
    figures = InferenceFigures(devices=len(devices), runs_on=runs_on)

    def pulse() -> Pulse[InferenceFigures]:
        return Pulse(0, "", figures)

    with contextlib.closing(Heartbeats(settings.redis_url, run.name)) as heartbeats:
        beating = asyncio.create_task(beat(heartbeats, settings.worker_name, pulse))
        try:
            status = await serve_several(settings, devices, stop)
        finally:
            beating.cancel()
    if status:
        raise SystemExit(status)


def model_loader(run: RunConfig, settings: InferenceSettings, provider: Provider) -> ModelLoader:
    """Loads published models of the run's game."""
    spec = games.spec(run.game.name)
    store = open_store(settings, run.name)

    def opened(model_bytes: bytes) -> ModelSession:
        if provider.cache_folder is not None:
            prune_engines(provider.cache_folder)
        return open_session(model_bytes, spec, provider)

    return ModelLoader(
        store.read_verified,
        opened,
        sessions_of(run, provider),
        games.State(run.game.name).observation()[np.newaxis],
    )


def precisions_for(run: RunConfig, provider: Provider) -> Precisions:
    """Return the choice of variants, and how their speed is measured.

    On the CPU in batches of 64 on the thread's own clock, on a GPU in the largest there are: that
    is where each has its limit.
    """
    section = run.inference
    clock = time.thread_time if provider.name == "cpu" else time.perf_counter
    rows = section.max_batch_rows if provider.is_gpu else min(_CPU_ROWS, section.max_batch_rows)
    observations = np.repeat(games.State(run.game.name).observation()[np.newaxis], rows, axis=0)
    return Precisions(
        section.precision,
        FAST_PRECISIONS[provider.name],
        lambda models: fastest_model(models, observations, clock),
    )


def batcher_for(run: RunConfig, models: ServedModels, provider: Provider) -> Batcher:
    """The batcher that the run file asks for; models that it finds broken are no longer served."""
    section = run.inference
    threads = sessions_of(run, provider)
    limits = BatchLimits(section.max_batch_rows, section.max_queue_rows, threads)
    return Batcher(limits, models.mark_bad, models.is_best)


async def _answer(
    run: RunConfig,
    settings: InferenceSettings,
    models: ServedModels,
    batcher: Batcher,
    heartbeats: Heartbeats,
    provider: Provider,
    stop: asyncio.Event,
) -> None:
    spec = games.spec(run.game.name)
    shape = RequestShape(spec.observation_bytes, spec.num_actions, run.inference.max_batch_rows)
    backend = Backend(models, batcher, shape, provider.name)
    load = Load(batcher, models, provider.name, runs_on=runs_on_text(run, provider))
    search = run.search.model_copy(update={"num_simulations": client_simulations(run)})
    player = ModelPlayer(run.game.name, search, models, batcher)
    server = Server(
        settings.listen_address,
        inference=backend,
        player=player,
        reflection=settings.reflection,
        share_port=settings.share_port,
        credentials=ServerCredentials.of(settings),
        limits=Limits(call_seconds=settings.call_seconds),
    )
    health = HealthServer(settings.health_address, ready=lambda: server.serving, names=server.names)

    with (
        served_metrics(
            settings.metrics_address,
            lambda: InferenceCollector(batcher, models, provider.name, load),
        ),
        health,
    ):
        async with server:
            _log.info("serving", address=settings.listen_address, port=server.port, run=run.name)
            await first_of(
                stop.wait(),
                batcher.broken.wait(),
                models.follow_best(_POLL_SECONDS),
                models.follow_variants(_VARIANTS_SECONDS),
                _keep_health(server, backend),
                beat(heartbeats, settings.worker_name, load.pulse),
                health.keep_ticking(),
                give_memory_back(),
            )
            _log.info("draining", queue_rows=batcher.queue_rows)
            await server.drain(settings.inference_drain_seconds)
    _log.info("stopped")
    if batcher.broken.is_set():
        raise SystemExit(1)  # so that its supervisor starts another one


async def _keep_health(server: Server, backend: Backend) -> None:
    """SERVING as soon as the best model is loaded."""
    while True:
        await server.set_serving(backend.ready())
        await asyncio.sleep(_POLL_SECONDS / 2)


_METRIC_PREFIX = "zerofleet_inference"


class InferenceCollector(Collector):
    """Turns the service's counters into metrics when they are scraped."""

    def __init__(
        self,
        batcher: Batcher,
        models: ServedModels,
        provider: str,
        load: Load,
    ) -> None:
        self._batcher = batcher
        self._models = models
        self._provider = provider
        self._load = load

    def collect(self) -> Iterator[Metric]:
        """All metrics, in base units."""
        yield from self._counters()
        yield from self._precisions()
        yield from self._gauges()
        statistics = self._batcher.statistics
        yield _histogram("batch_rows", "Rows of a batch.", statistics.batch_rows)
        yield _histogram(
            "queue_wait_seconds", "A request's wait for a model thread.", statistics.queue_wait
        )

    def _counters(self) -> Iterator[Metric]:
        totals = self._batcher.statistics.totals
        for name, text, value in (
            ("request_success", "Requests answered.", totals.success),
            ("request_failure", "Requests that a model failed to answer.", totals.fail),
            ("request_refused", "Requests that found the queue full.", totals.refused),
            ("request_expired", "Requests whose deadline passed in the queue.", totals.expired),
            ("rows", "Positions evaluated.", totals.rows),
            ("executions", "Batches run.", totals.executions),
            ("queue_duration_seconds", "Waits of all requests.", totals.queue_ns / 1e9),
            ("compute_duration_seconds", "Runs of all batches.", totals.compute_ns / 1e9),
            (
                "request_duration_seconds",
                "Waits and runs of all requests.",
                totals.request_ns / 1e9,
            ),
            ("model_load_failures", "Models that did not load.", self._models.failed_loads),
        ):
            yield CounterMetricFamily(f"{_METRIC_PREFIX}_{name}", text, value=value)
        release = CounterMetricFamily(
            f"{_METRIC_PREFIX}_batch_release",
            "Batches by the reason for their size.",
            labels=["reason"],
        )
        release.add_metric(["full"], totals.full)
        release.add_metric(["idle"], totals.executions - totals.full)
        yield release

    def _precisions(self) -> Iterator[Metric]:
        found = dict(self._batcher.statistics.precisions)
        rows = CounterMetricFamily(
            f"{_METRIC_PREFIX}_precision_rows", "Positions evaluated.", labels=["precision"]
        )
        executions = CounterMetricFamily(
            f"{_METRIC_PREFIX}_precision_executions", "Batches run.", labels=["precision"]
        )
        for name, totals in found.items():
            rows.add_metric([name], totals.rows)
            executions.add_metric([name], totals.executions)
        yield rows
        yield executions
        best = self._models.peek(None)
        answers = GaugeMetricFamily(
            f"{_METRIC_PREFIX}_answers_with",
            "1 for what the best model runs on, and its precision.",
            labels=["provider", "precision"],
        )
        answers.add_metric([self._provider, best.precision if best else "none"], 1)
        yield answers

    def _gauges(self) -> Iterator[Metric]:
        totals, best = self._batcher.statistics.totals, self._models.peek(None)
        capacity = totals.executions * self._batcher.limits.max_batch_rows
        age = time.time() - best.loaded_at if best else 0.0
        for name, text, value in (
            ("queue_rows", "Rows that wait now.", self._batcher.queue_rows),
            (
                "model_version",
                "Version of the best model, 0 for none.",
                best.version if best else 0,
            ),
            ("model_age_seconds", "Time since the best model was loaded.", age),
            ("batch_fill", "Mean rows / most rows of a batch.", totals.rows / (capacity or 1)),
            ("models_loaded", "Model files in memory.", len(self._models.loaded())),
            (
                "capacity_rows_per_second",
                "Positions a second in full batches, 0 while that is not known.",
                self._load.capacity,
            ),
        ):
            yield GaugeMetricFamily(f"{_METRIC_PREFIX}_{name}", text, value=value)


def _histogram(name: str, text: str, histogram: Histogram) -> Metric:
    cumulated, buckets = 0, list[tuple[str, float]]()
    bounds = [*map(str, histogram.bounds), "+Inf"]
    for bound, count in zip(bounds, histogram.counts, strict=True):
        cumulated += count
        buckets.append((bound, cumulated))
    return HistogramMetricFamily(
        f"{_METRIC_PREFIX}_{name}", text, buckets=buckets, sum_value=histogram.total
    )
