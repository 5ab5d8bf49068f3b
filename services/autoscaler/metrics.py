"""Prometheus metrics of the autoscaler: its answers, the reasons, and its inputs."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from zerofleet.fleet.need import Need
from zerofleet.services.autoscaler.desired_replicas import Desired, ScalingReason
from zerofleet.services.autoscaler.keda import Watch

_PREFIX = "zerofleet_autoscaler"


class WatchCollector(Collector):
    """Collects the newest answers at each scrape."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def collect(self) -> Iterator[Metric]:
        """Yield desired and current numbers, and the inputs while they are complete."""
        looks = CounterMetricFamily(f"{_PREFIX}_looks", "Looks at the fleet.", labels=["redis"])
        looks.add_metric(["answered"], self._watch.looks)
        looks.add_metric(["away"], self._watch.missed_looks)
        yield looks
        current = GaugeMetricFamily(
            f"{_PREFIX}_current_replicas", "Replicas that send heartbeats.", labels=["role"]
        )
        current.add_metric(["selfplay"], self._watch.fleet.workers)
        current.add_metric(["inference"], self._watch.fleet.replicas)
        yield current
        answers = self._watch.answers
        if answers is not None:
            yield from _answers(answers)
            if answers.need is not None:
                yield from _inputs(answers.need)


def _answers(answers: Desired) -> Iterator[Metric]:
    desired = GaugeMetricFamily(f"{_PREFIX}_desired_replicas", "Desired replicas.", labels=["role"])
    reasons = GaugeMetricFamily(
        f"{_PREFIX}_reason",
        "1 for the reason of the desired number, else 0.",
        labels=["role", "reason"],
    )
    for role, answer in (("selfplay", answers.selfplay), ("inference", answers.inference)):
        desired.add_metric([role], answer.count)
        for reason in ScalingReason:
            reasons.add_metric([role, reason.value], float(reason is answer.reason))
    yield desired
    yield reasons


def _inputs(need: Need) -> Iterator[Metric]:
    for name, text, value in (
        ("reuse", "Samples drawn of each new position if nothing waited.", need.reuse),
        ("reuse_target", "Samples that a new position pays for.", need.target),
        ("useful_workers", "Self-play workers that would bring reuse to its target.", need.workers),
        ("fed_workers", "Self-play workers that inference can feed.", need.fed),
        ("useful_inference", "Inference replicas for the rows of those workers.", need.replicas),
        ("batch_fill", "Mean rows / most rows of a batch.", need.fill),
        ("queue_wait_per_compute", "Mean wait of a request / run of a batch.", need.wait),
        ("inference_load", "Rows a second / capacity of inference.", need.load),
    ):
        yield GaugeMetricFamily(f"{_PREFIX}_{name}", text, value=value)
