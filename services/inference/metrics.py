"""Prometheus metrics over HTTP, read from the batcher's and the served models' own counters."""

from __future__ import annotations

import time
from collections.abc import Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from zerofleet.services.inference.batcher import Batcher, Histogram
from zerofleet.services.inference.recent_load import Load
from zerofleet.services.inference.served_models import ServedModels

_PREFIX = "zerofleet_inference"


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
            yield CounterMetricFamily(f"{_PREFIX}_{name}", text, value=value)
        release = CounterMetricFamily(
            f"{_PREFIX}_batch_release", "Batches by the reason for their size.", labels=["reason"]
        )
        release.add_metric(["full"], totals.full)
        release.add_metric(["idle"], totals.executions - totals.full)
        yield release

    def _precisions(self) -> Iterator[Metric]:
        found = dict(self._batcher.statistics.precisions)
        rows = CounterMetricFamily(
            f"{_PREFIX}_precision_rows", "Positions evaluated.", labels=["precision"]
        )
        executions = CounterMetricFamily(
            f"{_PREFIX}_precision_executions", "Batches run.", labels=["precision"]
        )
        for name, totals in found.items():
            rows.add_metric([name], totals.rows)
            executions.add_metric([name], totals.executions)
        yield rows
        yield executions
        best = self._models.peek(None)
        answers = GaugeMetricFamily(
            f"{_PREFIX}_answers_with",
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
            yield GaugeMetricFamily(f"{_PREFIX}_{name}", text, value=value)


def _histogram(name: str, text: str, histogram: Histogram) -> Metric:
    cumulated, buckets = 0, list[tuple[str, float]]()
    bounds = [*map(str, histogram.bounds), "+Inf"]
    for bound, count in zip(bounds, histogram.counts, strict=True):
        cumulated += count
        buckets.append((bound, cumulated))
    return HistogramMetricFamily(
        f"{_PREFIX}_{name}", text, buckets=buckets, sum_value=histogram.total
    )
