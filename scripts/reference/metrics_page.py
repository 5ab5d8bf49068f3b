"""The Prometheus metrics: what each service's collector gives when all its figures are known."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from types import SimpleNamespace
from typing import Any, cast, get_args

from markdown_text import cell, joined, table, with_stop
from prometheus_client.core import Metric

from zerofleet.database import SubmitStatus
from zerofleet.fleet import figures as fleet_figures
from zerofleet.fleet.need import Need
from zerofleet.service import Pulse
from zerofleet.services.autoscaler.desired_replicas import Desired, DesiredReplicas, ScalingReason
from zerofleet.services.autoscaler.service import WatchCollector
from zerofleet.services.dashboard.service import PageServer
from zerofleet.services.evaluator.service import PulseCollector
from zerofleet.services.inference.batcher import Statistics
from zerofleet.services.inference.service import InferenceCollector
from zerofleet.services.selfplay.pace import PlayTotals
from zerofleet.services.selfplay.service import WorkerCollector
from zerofleet.services.trainer.service import TrainerCollector

HEAD = """# Metrics

With `ZEROFLEET_METRICS_ADDRESS` set, a service answers `GET /metrics` in the format of Prometheus.
The value is `host:port`; `:9100` listens on every address of the machine.
The answers are plaintext and need no token, so a firewall or a network policy decides who may read them.

`zerofleet up` serves the metrics on free ports of 127.0.0.1, and `zerofleet status` lists them.
`zerofleet up --metrics-port BASE` fixes the ports:

| Port | Process |
|---|---|
| BASE | trainer |
| BASE + 1 | evaluator |
| BASE + 2 | dashboard |
| BASE + 3 to BASE + 2 + N | the N processes of `--workers N` |
| BASE + 3 + N | inference |

A scrape configuration for `zerofleet up RUN.toml --metrics-port 9100`:

```yaml
scrape_configs:
  - job_name: zerofleet
    scrape_interval: 10s
    static_configs:
      - targets: ["127.0.0.1:9100"]
        labels: {service: trainer}
      - targets: ["127.0.0.1:9101"]
        labels: {service: evaluator}
      - targets: ["127.0.0.1:9102"]
        labels: {service: dashboard}
      - targets: ["127.0.0.1:9103"]
        labels: {service: selfplay}
      - targets: ["127.0.0.1:9104"]
        labels: {service: inference}
```

A figure that is not known yet is absent.
This page is generated from the collectors by `scripts/reference`.
"""
HISTOGRAM = "`_bucket`, `_sum` and `_count`"


def render() -> str:
    """Return the page: a table for each service."""
    parts = [HEAD]
    for service, families in collected().items():
        parts += [f"## {service.capitalize()}", table(HEADINGS, rows(families))]
    return joined(parts)


HEADINGS = ("Metric", "Type", "Labels", "Meaning")


def collected() -> dict[str, list[Metric]]:
    """Return the families of metrics of each service."""
    return {
        "self-play": list(WorkerCollector(_worker()).collect()),
        "inference": list(_inference().collect()),
        "trainer": list(TrainerCollector(lambda: _pulse("trainer")).collect()),
        "evaluator": list(PulseCollector(lambda: _pulse("evaluator")).collect()),
        "autoscaler": list(WatchCollector(_watch()).collect()),
        "dashboard": list(_dashboard()),
    }


def _worker() -> Any:  # noqa: ANN401 - a stand-in
    return SimpleNamespace(
        totals=PlayTotals,
        writer=SimpleNamespace(answers=dict.fromkeys(get_args(SubmitStatus), 1), spooled=0),
        figures=fleet_figures.SelfplayFigures(),
        resignation=SimpleNamespace(threshold=-1.0),
    )


def _inference() -> InferenceCollector:
    statistics = Statistics(1)
    statistics.precisions["int8"].rows = 1
    batcher = SimpleNamespace(
        statistics=statistics, queue_rows=0, limits=SimpleNamespace(max_batch_rows=1)
    )
    models = SimpleNamespace(failed_loads=0, peek=lambda _: None, loaded=list)
    load = SimpleNamespace(capacity=0.0)
    return InferenceCollector(cast("Any", batcher), cast("Any", models), "cpu", cast("Any", load))


def _watch() -> Any:  # noqa: ANN401 - a stand-in
    replicas = DesiredReplicas(1, 1, next(iter(ScalingReason)), "")
    return SimpleNamespace(
        looks=1,
        missed_looks=0,
        fleet=SimpleNamespace(workers=1, replicas=1),
        answers=Desired(replicas, replicas, cast("Need", _filled(Need))),
    )


def _dashboard() -> Iterable[Metric]:
    state = SimpleNamespace(total_requests=0)
    server = SimpleNamespace(_server=SimpleNamespace(server_state=state))
    return PageServer.collector(cast("Any", server)).collect()


def _pulse(service: str) -> Pulse[Any]:
    return Pulse(1, "", _filled(fleet_figures.KINDS[service]))


def _filled(kind: type[Any]) -> Any:  # noqa: ANN401 - any dataclass
    """Return a dataclass with a number in each field that can hold one."""
    hints = typing.get_type_hints(kind)
    known = {each.name: _value(hints[each.name]) for each in fields(kind)}
    return kind(**known)


def _value(hint: Any) -> Any:  # noqa: ANN401 - of any type
    options = [each for each in typing.get_args(hint) if each is not types.NoneType]
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        return _value(options[0])
    if origin is tuple:
        return (_value(options[0]),)
    if origin is not None:  # the variants of a model by precision
        return {"int8": _value(options[-1])}
    return _filled(hint) if is_dataclass(hint) else hint(1)


def rows(families: list[Metric]) -> list[tuple[str, str, str, str]]:
    """Return a row for each metric; one of the training and of the validation set share a row."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for family in families:
        name = family.name + ("_total" if family.type == "counter" else "")
        kind = f"{family.type}: {HISTOGRAM}" if family.type == "histogram" else family.type
        key = (kind, _labels(family), with_stop(cell(_meaning(family))))
        found.setdefault(key, []).append(f"`{name}`")
    return [(", ".join(names), *key) for key, names in found.items()]


def _labels(family: Metric) -> str:
    """Return the labels, with their values where the collector knows more than one."""
    values: dict[str, dict[str, None]] = {}
    for sample in family.samples:
        for label, value in sample.labels.items():
            if label != "le":
                values.setdefault(label, {})[value] = None
    return "; ".join(
        f"`{label}`" + (": " + ", ".join(f"`{each}`" for each in known) if len(known) > 1 else "")
        for label, known in values.items()
    )


def _meaning(family: Metric) -> str:
    """Return what a metric is; a figure of a heartbeat has its words in the figure's class."""
    service, _, figure = family.name.removeprefix("zerofleet_").partition("_")
    if service not in ("trainer", "evaluator"):
        return family.documentation
    for prefix, kind, words in (
        ("value_by_stage_", fleet_figures.Stage, " (by quarter of the game: stage 1 to 4)"),
        ("train_", fleet_figures.Measurement, " (training games, validation set)"),
        ("held_out_", fleet_figures.Measurement, " (training games, validation set)"),
        ("int8_", fleet_figures.VariantFigures, " (newest int8 model)"),
        ("", fleet_figures.DemandFigures, ""),
        ("", fleet_figures.KINDS[service], ""),
    ):
        name = figure.removeprefix(prefix)
        if figure.startswith(prefix) and name in (said := dict(_said(kind))):
            text = said[name] or family.documentation
            text = text.rstrip(".") + words
            return re.sub(r"\bNone\b", "absent", re.sub(r"\. None\b", ". Absent", text))
    return family.documentation


def _said(kind: type[Any]) -> Iterator[tuple[str, str]]:
    """Yield each field of a dataclass with its docstring or comment."""
    source = inspect.getsource(kind)
    pattern = re.compile(
        r"^    (?:# (?P<before>.*)\n    )?(?P<name>\w+): [^#\n]*(?:# (?P<after>.*))?\n"
        r'(?:    """(?P<doc>[^"]*)""")?',
        re.MULTILINE,
    )
    for match in pattern.finditer(source):
        words = match["doc"] or match["after"] or match["before"] or ""
        yield match["name"], words[:1].upper() + words[1:]
