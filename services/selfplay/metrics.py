"""Prometheus metrics of a worker over HTTP."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from dataclasses import asdict

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from services.selfplay.worker import Worker
from zerofleet.errors import ConfigError

_PREFIX = "zerofleet_selfplay"
_COUNTED = {
    "games": "Games finished.",
    "plies": "Moves chosen by search.",
    "positions": "Positions that the network predicted.",
    "simulations": "Simulations run.",
    "cache_hits": "Predictions found in the cache.",
}


class WorkerCollector(Collector):
    """Reads a worker's counts when they are asked for."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def collect(self) -> Iterator[Metric]:
        """Counters of play and of delivery, and the spool as it is now."""
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


@contextlib.contextmanager
def served(address: str, worker: Worker) -> Generator[None]:
    """Serve ``/metrics`` from a thread while this is entered.

    Raises:
        ConfigError: the address is not ``host:port``, or cannot be bound.
    """
    host, _, port = address.rpartition(":")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(WorkerCollector(worker))
    try:
        server, thread = start_http_server(int(port), host.strip("[]") or "127.0.0.1", registry)
    except (OSError, ValueError, OverflowError) as error:
        raise ConfigError(
            f"cannot serve metrics on '{address}' ({error}): "
            "give a free host:port in ZEROFLEET_METRICS_ADDRESS"
        ) from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
