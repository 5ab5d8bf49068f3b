"""Connects the autoscaler: heartbeats in, answers to KEDA out."""

from __future__ import annotations

import contextlib
from asyncio import Event
from typing import TYPE_CHECKING

import structlog

from zerofleet.config import ProcessSettings, RunConfig
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.rpc.health import HealthServer
from zerofleet.rpc.scaler import ScalerServer
from zerofleet.rpc.tls import ServerCredentials
from zerofleet.service import beat, first_of, served_metrics
from zerofleet.services.autoscaler.keda import KedaScaler, Watch

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

_log = structlog.get_logger()

_DRAIN_SECONDS = 2.0


async def serve(run: RunConfig, settings: AutoscalerSettings, stop: Event) -> None:
    """Answer until ``stop`` is set; then end the open streams and return within seconds.

    Raises:
        ConfigError: an address cannot be bound.
    """
    with contextlib.closing(Heartbeats(settings.redis_url, run.name)) as heartbeats:
        watch = Watch(heartbeats, run.scaling)

        def collector() -> Collector:
            from zerofleet.services.autoscaler.metrics import WatchCollector

            return WatchCollector(watch)

        with (
            HealthServer(settings.health_address) as health,
            served_metrics(settings.metrics_address, collector),
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
