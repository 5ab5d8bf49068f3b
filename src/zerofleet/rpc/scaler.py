"""KEDA's service ``externalscaler.ExternalScaler``: its server, and its requests in plain values.

KEDA calls GetMetricSpec for a new ScaledObject, then GetMetrics and IsActive at every poll. With a
trigger of type ``external-push`` it also keeps both streams open. Everything is always active: the
ScaledObject sets the minimum number of replicas, and zero is never right.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer

from zerofleet.errors import InvalidRequestError
from zerofleet.rpc.access import Limits
from zerofleet.rpc.methods import SCALER, generic_handler
from zerofleet.rpc.schema import externalscaler as pb
from zerofleet.rpc.server import bare_server, bind
from zerofleet.rpc.tls import ServerCredentials

_Context = grpc.aio.ServicerContext[Any, Any]

_TARGET = 1  # for one replica: with metricType AverageValue the metric is the number of replicas


@dataclass(frozen=True, slots=True)
class ScaledObject:
    """The scaled object of the cluster, and the metadata of its trigger."""

    name: str
    namespace: str
    metadata: Mapping[str, str]


class Scaler(Protocol):
    """Returns useful numbers of replicas."""

    def metric(self, scaled: ScaledObject) -> str:
        """Return the name of this object's metric; always the same for the same object.

        Raises:
            InvalidRequestError: its metadata is wrong; the message names the key.
        """
        ...

    def replicas(self, scaled: ScaledObject) -> int:
        """Return the current value of that metric.

        Raises:
            InvalidRequestError: its metadata is wrong; the message names the key.
            ZerofleetError: it is not known; KEDA then changes nothing.
        """
        ...


class ScalerServer:
    """Serves KEDA from ``async with`` on.

    Args:
        address: ``host:port`` (port 0: any free one) or ``unix:path``.
        scaler: returns the answers.
        credentials: the server's certificate, and the accepted clients. KEDA sends no token; to
            authenticate it, require its certificate.

    Raises:
        ConfigError: on entering, if the address cannot be bound or would be plaintext for others,
            or a certificate cannot be used.
    """

    def __init__(self, address: str, scaler: Scaler, credentials: ServerCredentials) -> None:
        self._address = address
        self._servicer = ScalerServicer(scaler)
        self._credentials = replace(credentials, token_roles_file=None)
        self.port = 0
        """The bound port, once entered (0 for a unix socket)."""

    async def __aenter__(self) -> Self:
        self._server = bare_server(self._credentials, Limits())
        self._health = HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(  # pyright: ignore[reportUnknownMemberType]
            self._health, self._server
        )
        self._server.add_generic_rpc_handlers((generic_handler(SCALER, self._servicer),))
        self.port = bind(self._server, self._address, self._credentials)
        for name in ("", SCALER):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        await self._server.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._server.stop(0)

    async def drain(self, grace: float) -> None:
        """Refuse new calls, answer open ones, end the streams; at most ``grace`` seconds."""
        await self._health.enter_graceful_shutdown()
        self._servicer.drain()
        await self._server.stop(grace)


class ScalerServicer:
    """Methods have the schema's names; the interceptor handles errors."""

    def __init__(self, scaler: Scaler) -> None:
        self._scaler = scaler
        self._ends = asyncio.Event()

    def drain(self) -> None:
        """End the streams; KEDA opens them again elsewhere, or here after a restart."""
        self._ends.set()

    async def IsActive(  # noqa: N802
        self, request: pb.ScaledObjectRef, context: _Context
    ) -> pb.IsActiveResponse:
        """Return active, if the trigger is valid."""
        del context
        self._scaler.metric(_scaled(request))
        return pb.IsActiveResponse(result=True)

    async def StreamIsActive(  # noqa: N802
        self, request: pb.ScaledObjectRef, context: _Context
    ) -> AsyncIterator[pb.IsActiveResponse]:
        """Send active once, because it never changes; then wait for the end."""
        del context
        self._scaler.metric(_scaled(request))
        yield pb.IsActiveResponse(result=True)
        await self._ends.wait()

    async def GetMetricSpec(  # noqa: N802
        self, request: pb.ScaledObjectRef, context: _Context
    ) -> pb.GetMetricSpecResponse:
        """Return the one metric."""
        del context
        return self._spec(request)

    async def StreamMetricSpec(  # noqa: N802
        self, request: pb.ScaledObjectRef, context: _Context
    ) -> AsyncIterator[pb.GetMetricSpecResponse]:
        """Send the one metric once, because it never changes; then wait for the end."""
        del context
        yield self._spec(request)
        await self._ends.wait()

    async def GetMetrics(  # noqa: N802
        self, request: pb.GetMetricsRequest, context: _Context
    ) -> pb.GetMetricsResponse:
        """Return the value of the metric."""
        del context
        scaled = _scaled(request.scaledObjectRef)
        known = self._scaler.metric(scaled)
        if request.metricName != known:
            raise InvalidRequestError(
                f"metricName '{request.metricName}' is not known for {scaled.namespace}/"
                f"{scaled.name}: GetMetricSpec names '{known}'"
            )
        count = self._scaler.replicas(scaled)
        value = pb.MetricValue(metricName=known, metricValue=count, metricValueFloat=count)
        return pb.GetMetricsResponse(metricValues=[value])

    def _spec(self, request: pb.ScaledObjectRef) -> pb.GetMetricSpecResponse:
        name = self._scaler.metric(_scaled(request))
        spec = pb.MetricSpec(metricName=name, targetSize=_TARGET, targetSizeFloat=_TARGET)
        return pb.GetMetricSpecResponse(metricSpecs=[spec])


def _scaled(request: pb.ScaledObjectRef) -> ScaledObject:
    return ScaledObject(request.name, request.namespace, dict(request.scalerMetadata))
