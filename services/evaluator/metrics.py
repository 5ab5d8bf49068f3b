"""Prometheus metrics of an evaluator over HTTP."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from zerofleet.errors import ConfigError
from zerofleet.service import Pulse

_PREFIX = "zerofleet_evaluator"


class PulseCollector(Collector):
    """Reads an evaluator's pulse when it is asked for."""

    def __init__(self, pulse: Callable[[], Pulse]) -> None:
        self._pulse = pulse

    def collect(self) -> Iterator[Metric]:
        """Progress as a counter, the figures of the heartbeat as gauges."""
        pulse = self._pulse()
        yield CounterMetricFamily(
            f"{_PREFIX}_progress", "Games played and models judged.", value=pulse.progress
        )
        for name, value in pulse.figures.items():
            words = name.replace("_", " ").capitalize()
            yield GaugeMetricFamily(f"{_PREFIX}_{name}", f"{words}.", value=value)


@contextlib.contextmanager
def served(address: str, pulse: Callable[[], Pulse]) -> Generator[None]:
    """Serve ``/metrics`` from a thread while this is entered.

    Raises:
        ConfigError: the address is not ``host:port``, or cannot be bound.
    """
    host, _, port = address.rpartition(":")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PulseCollector(pulse))
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
