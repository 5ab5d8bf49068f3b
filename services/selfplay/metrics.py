"""Prometheus metrics of a worker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from zerofleet.services.selfplay.worker import Worker

_PREFIX = "zerofleet_selfplay"
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
            yield CounterMetricFamily(f"{_PREFIX}_{name}", _COUNTED[name], value=value)
        answers = CounterMetricFamily(
            f"{_PREFIX}_answers", "Postgres' answers to finished games.", labels=["answer"]
        )
        for answer, count in dict(self._worker.writer.answers).items():
            answers.add_metric([answer], count)
        yield answers
        yield GaugeMetricFamily(
            f"{_PREFIX}_spool_games",
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
            yield GaugeMetricFamily(f"{_PREFIX}_{name}", text, value=value)
        threshold = self._worker.resignation.threshold
        resign = GaugeMetricFamily(
            f"{_PREFIX}_resign_threshold",
            "Value below which games that begin now are resigned; absent while no player resigns.",
        )
        if threshold is not None:
            resign.add_metric([], threshold)
        yield resign
