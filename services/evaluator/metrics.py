"""Prometheus metrics of an evaluator over HTTP."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from services.evaluator.life import Life
from zerofleet.errors import ConfigError

_PREFIX = "zerofleet_evaluator"


class FigureCollector(Collector):
    """Reads an evaluator's progress and figures when they are asked for."""

    def __init__(self, life: Life) -> None:
        self._life = life

    def collect(self) -> Iterator[Metric]:
        """Progress as a counter, the figures of the heartbeat as gauges."""
        yield CounterMetricFamily(
            f"{_PREFIX}_progress", "Games played and models judged.", value=self._life.progress
        )
        for name, value in self._life.figures.items():
            words = name.replace("_", " ").capitalize()
            yield GaugeMetricFamily(f"{_PREFIX}_{name}", f"{words}.", value=value)


@contextlib.contextmanager
def metrics_served(address: str | None, life: Life) -> Iterator[None]:
    """Serve ``/metrics`` from a thread while this is entered; nothing without an address.

    Raises:
        ConfigError: the address is not ``host:port``, or cannot be bound.
    """
    if address is None:
        yield
        return
    host, _, port = address.rpartition(":")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(FigureCollector(life))
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
