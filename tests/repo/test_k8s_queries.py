"""Prometheus queries: expressions that parse, over metrics that exist."""

from __future__ import annotations

import re
from pathlib import Path

import promql_parser
import pytest

from tests.repo.k8s.manifests import Manifests
from zerofleet.fleet.figures import TrainerFigures, numbers

ROOT = Path(__file__).resolve().parents[2]
# Metrics that are not ours: the kubelet's.
OUTSIDE = {"kubelet_volume_stats_available_bytes", "kubelet_volume_stats_capacity_bytes"}


@pytest.fixture(scope="session")
def expressions(fleets: dict[str, Manifests]) -> dict[str, str]:
    """Every expression, by where it stands."""
    found: dict[str, str] = {}
    for fleet in fleets.values():
        for document in fleet.of_kind("PrometheusRule"):
            for group in document["spec"]["groups"]:
                found |= {f"alert {rule['alert']}": rule["expr"] for rule in group["rules"]}
    return found


def test_every_expression_parses(expressions: dict[str, str]) -> None:
    assert len(expressions) >= 10
    for text in expressions.values():
        promql_parser.parse(text)


def test_every_metric_is_one_that_a_service_has(expressions: dict[str, str]) -> None:
    words = exported_words()
    for place, text in expressions.items():
        for name in set(re.findall(r"\b(?:zerofleet|kubelet)_\w+", text)) - OUTSIDE:
            _, service, metric = name.split("_", 2)
            metric = metric.removesuffix("_total")
            assert metric in words[service], f"{place} asks for {name}, which it does not have"


def exported_words() -> dict[str, set[str]]:
    """Words that metrics of each service are named by: strings in its sources, and figures."""
    words = {
        service.name: {
            word
            for path in service.glob("*.py")
            for quoted in re.findall(r'"((?:\{_METRIC_PREFIX\}_)?[a-z0-9_]+)"', path.read_text())
            for word in [quoted.removeprefix("{_METRIC_PREFIX}_")]
        }
        for service in (ROOT / "services").iterdir()
        if service.is_dir()
    }
    words["trainer"] |= numbers(TrainerFigures()).keys()
    return words
