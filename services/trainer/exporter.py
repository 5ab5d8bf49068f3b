"""Prometheus metrics over HTTP: the same figures as in the heartbeat, when they are asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_PREFIX = "zerofleet_trainer"
_OF_A_STAGE = re.compile(r"(train|held_out)_stage_(\d+)_(\w+)")


class FigureCollector(Collector):
    """Turns the trainer's figures into gauges.

    Args:
        figures: the present step, and figures by name.
    """

    def __init__(self, figures: Callable[[], tuple[int, Mapping[str, float]]]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """One gauge for each figure that is known by now, those of the game's stages by label."""
        step, figures = self._figures()
        yield GaugeMetricFamily(f"{_PREFIX}_step", "Steps of SGD taken.", value=step)
        tables: dict[str, GaugeMetricFamily] = {}
        for name, value in figures.items():
            of_a_stage = _OF_A_STAGE.fullmatch(name)
            if of_a_stage is None:
                yield GaugeMetricFamily(f"{_PREFIX}_{name}", f"{_words(name)}.", value=value)
                continue
            split, stage, column = of_a_stage.groups()
            if column not in tables:
                tables[column] = GaugeMetricFamily(
                    f"{_PREFIX}_value_by_stage_{column}",
                    f"{_words(column)}: the value's calibration by quarter of the game, 1 to 4.",
                    labels=("split", "stage"),
                )
            tables[column].add_metric((split, stage), value)
        yield from tables.values()


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()
