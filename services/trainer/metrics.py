"""Prometheus metrics of the trainer: the figures of its heartbeat, at the time of the scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from zerofleet.fleet.figures import Measurement, TrainerFigures, numbers
from zerofleet.service import Pulse

_PREFIX = "zerofleet_trainer"


class TrainerCollector(Collector):
    """Turns the trainer's figures into gauges.

    Args:
        pulse: returns the present step and figures.
    """

    def __init__(self, pulse: Callable[[], Pulse[TrainerFigures]]) -> None:
        self._pulse = pulse

    def collect(self) -> Iterator[Metric]:
        """Yield one gauge for each figure known so far; labels tell the game's stages apart."""
        pulse = self._pulse()
        yield GaugeMetricFamily(f"{_PREFIX}_step", "Training steps taken.", value=pulse.progress)
        figures = pulse.figures
        measured = {"train": figures.train, "held_out": figures.held_out}
        known = numbers(figures) | numbers(figures.demand)
        for split, measurement in measured.items():
            if measurement is not None:
                known |= numbers(measurement, f"{split}_")
        for precision, variant in figures.variants.items():
            known |= numbers(variant, f"{precision}_")
        for name, value in known.items():
            yield GaugeMetricFamily(f"{_PREFIX}_{name}", f"{_words(name)}.", value=value)
        yield from _by_stage(measured)


def _by_stage(measured: dict[str, Measurement | None]) -> Iterator[Metric]:
    tables: dict[str, GaugeMetricFamily] = {}
    for split, measurement in measured.items():
        for stage in measurement.calibration if measurement is not None else ():
            for column, value in numbers(stage).items():
                if column == "stage":
                    continue
                if column not in tables:
                    tables[column] = GaugeMetricFamily(
                        f"{_PREFIX}_value_by_stage_{column}",
                        f"{_words(column)}: the value's calibration by quarter of the game, "
                        "1 to 4.",
                        labels=("split", "stage"),
                    )
                tables[column].add_metric((split, str(stage.stage)), value)
    yield from tables.values()


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()
