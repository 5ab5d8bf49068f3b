"""Prometheus metrics of an evaluator."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from zerofleet.fleet.figures import EvaluatorFigures, numbers
from zerofleet.service import Pulse

_PREFIX = "zerofleet_evaluator"


class PulseCollector(Collector):
    """Reads an evaluator's pulse when it is asked for."""

    def __init__(self, pulse: Callable[[], Pulse[EvaluatorFigures]]) -> None:
        self._pulse = pulse

    def collect(self) -> Iterator[Metric]:
        """Progress as a counter, the figures of the heartbeat as gauges."""
        pulse = self._pulse()
        yield CounterMetricFamily(
            f"{_PREFIX}_progress", "Games played and models judged.", value=pulse.progress
        )
        for name, value in numbers(pulse.figures).items():
            words = name.replace("_", " ").capitalize()
            yield GaugeMetricFamily(f"{_PREFIX}_{name}", f"{words}.", value=value)
