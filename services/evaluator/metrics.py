"""Prometheus metrics of an evaluator."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from zerofleet.fleet.figures import EvaluatorFigures, numbers
from zerofleet.service import Pulse

_PREFIX = "zerofleet_evaluator"


class PulseCollector(Collector):
    """Collects an evaluator's pulse at each scrape."""

    def __init__(self, pulse: Callable[[], Pulse[EvaluatorFigures]]) -> None:
        self._pulse = pulse

    def collect(self) -> Iterator[Metric]:
        """Yield progress as a counter, and the figures of the heartbeat as gauges."""
        pulse = self._pulse()
        yield CounterMetricFamily(
            f"{_PREFIX}_progress", "Games played and models judged.", value=pulse.progress
        )
        for name, value in numbers(pulse.figures).items():
            words = name.replace("_", " ").capitalize()
            yield GaugeMetricFamily(f"{_PREFIX}_{name}", f"{words}.", value=value)
