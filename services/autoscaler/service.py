"""Connects the autoscaler: heartbeats in, answers to KEDA out."""

from __future__ import annotations

import contextlib
from asyncio import Event
from collections.abc import Iterator

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from zerofleet.config import ProcessSettings, RunConfig
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.fleet.need import Need
from zerofleet.rpc.health import HealthServer
from zerofleet.rpc.scaler import ScalerServer
from zerofleet.rpc.tls import ServerCredentials
from zerofleet.service import beat, first_of, served_metrics
from zerofleet.services.autoscaler.desired_replicas import Desired, ScalingReason
from zerofleet.services.autoscaler.keda import KedaScaler, Watch

_log = structlog.get_logger()

_DRAIN_SECONDS = 2.0


async def serve(run: RunConfig, settings: AutoscalerSettings, stop: Event) -> None:
    """Answer until ``stop`` is set; then end the open streams and return within seconds.

    Raises:
        ConfigError: an address cannot be bound.
    """
    with contextlib.closing(Heartbeats(settings.redis_url, run.name)) as heartbeats:
        watch = Watch(heartbeats, run.scaling)

        with (
            HealthServer(settings.health_address) as health,
            served_metrics(settings.metrics_address, lambda: WatchCollector(watch)),
        ):
            async with ScalerServer(
                settings.scaler_address,
                KedaScaler(run.name, watch),
                ServerCredentials.of(settings),
            ) as server:
                _log.info("serving", address=settings.scaler_address, port=server.port)
                await first_of(
                    stop.wait(),
                    watch.watch(),
                    beat(heartbeats, settings.worker_name, watch.pulse),
                    health.keep_ticking(),
                )
                _log.info("draining")
                await server.drain(_DRAIN_SECONDS)
    _log.info("stopped")


class AutoscalerSettings(ProcessSettings):
    """Settings of every process, and the address for KEDA."""

    scaler_address: str = "127.0.0.1:9001"
    """Address where the autoscaler listens for KEDA."""


_METRIC_PREFIX = "zerofleet_autoscaler"


class WatchCollector(Collector):
    """Collects the newest answers at each scrape."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def collect(self) -> Iterator[Metric]:
        """Yield desired and current numbers, and the inputs while they are complete."""
        looks = CounterMetricFamily(
            f"{_METRIC_PREFIX}_looks", "Looks at the fleet.", labels=["redis"]
        )
        looks.add_metric(["answered"], self._watch.looks)
        looks.add_metric(["away"], self._watch.missed_looks)
        yield looks
        current = GaugeMetricFamily(
            f"{_METRIC_PREFIX}_current_replicas", "Replicas that send heartbeats.", labels=["role"]
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
    desired = GaugeMetricFamily(
        f"{_METRIC_PREFIX}_desired_replicas", "Desired replicas.", labels=["role"]
    )
    reasons = GaugeMetricFamily(
        f"{_METRIC_PREFIX}_reason",
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
        yield GaugeMetricFamily(f"{_METRIC_PREFIX}_{name}", text, value=value)
