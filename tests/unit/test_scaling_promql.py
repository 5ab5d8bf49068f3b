"""The expressions that docs/autoscaling.md gives to Prometheus parse, and name real metrics."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import promql_parser
import pytest

from services.inference.batcher import Batcher, BatchLimits
from services.inference.metrics import InferenceCollector
from services.inference.repository import Repository
from services.selfplay.figures import Totals
from services.selfplay.metrics import WorkerCollector
from services.trainer.bucket import TrainBucket
from services.trainer.demand import Demand
from services.trainer.exporter import FigureCollector

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "autoscaling.md").read_text()
EXPRESSIONS = re.findall(r"```promql\n(.*?)```", PAGE, re.DOTALL)
NAME = re.compile(r"\bzerofleet_\w+")


def exported() -> set[str]:
    """What the services' own collectors export."""
    clock = iter(range(100))
    bucket = TrainBucket(4.0)
    demand = Demand(bucket, lambda: float(next(clock)))
    demand.turn(hungry=False)
    bucket.pay(100)
    bucket.draw(100)
    empty = SimpleNamespace(failed_loads=0, peek=lambda version: None, loaded=tuple)
    batcher = Batcher(BatchLimits(64, 64), lambda model: None)
    worker = SimpleNamespace(
        totals=Totals,
        figures={},
        writer=SimpleNamespace(answers={}, spooled=0),
        resignation=SimpleNamespace(threshold=None),
    )
    collectors = (
        FigureCollector(lambda: (1, demand.figures())),
        InferenceCollector(batcher, cast("Repository", empty), "cpu"),
        WorkerCollector(cast("Any", worker)),
    )
    families = [family for collector in collectors for family in collector.collect()]
    return {f"{each.name}_total" if each.type == "counter" else each.name for each in families}


def test_the_page_has_them_all() -> None:
    assert len(EXPRESSIONS) == 3


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_parses_and_names_only_metrics_that_exist(expression: str) -> None:
    promql_parser.parse(expression)
    named = set(NAME.findall(expression))
    assert named
    assert named <= exported()
