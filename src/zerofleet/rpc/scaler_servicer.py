"""KEDA's service ``externalscaler.ExternalScaler`` over a ``Scaler``.

KEDA asks GetMetricSpec when it meets a ScaledObject, then at every poll GetMetrics and IsActive;
with a trigger of type ``external-push`` it also keeps both streams open. Everything is always
active: the fewest replicas are the ScaledObject's to say, and none is never the right number.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio

from zerofleet.errors import InvalidRequestError
from zerofleet.rpc.scaler import ScaledObject, Scaler
from zerofleet.rpc.schema import externalscaler as pb

_Context = grpc.aio.ServicerContext[Any, Any]


class ScalerServicer:
    """Methods are named as the schema names them; errors are the interceptor's work."""

    def __init__(self, scaler: Scaler) -> None:
        self._scaler = scaler
        self._ends = asyncio.Event()

    def drain(self) -> None:
        """End the streams; KEDA opens them again elsewhere, or here after a restart."""
        self._ends.set()

    async def IsActive(  # noqa: N802
        self, request: pb.ScaledObjectRef, context: _Context
    ) -> pb.IsActiveResponse:
        """Always, if the trigger is right."""
        del context
        self._scaler.metric(_scaled(request))
        return pb.IsActiveResponse(result=True)

    async def StreamIsActive(  # noqa: N802
        self, request: pb.ScaledObjectRef, context: _Context
    ) -> AsyncIterator[pb.IsActiveResponse]:
        """Once, as it never changes; then nothing until the end."""
        del context
        self._scaler.metric(_scaled(request))
        yield pb.IsActiveResponse(result=True)
        await self._ends.wait()

    async def GetMetricSpec(  # noqa: N802
        self, request: pb.ScaledObjectRef, context: _Context
    ) -> pb.GetMetricSpecResponse:
        """The one metric."""
        del context
        return self._spec(request)

    async def StreamMetricSpec(  # noqa: N802
        self, request: pb.ScaledObjectRef, context: _Context
    ) -> AsyncIterator[pb.GetMetricSpecResponse]:
        """The one metric, which never changes; then nothing until the end."""
        del context
        yield self._spec(request)
        await self._ends.wait()

    async def GetMetrics(  # noqa: N802
        self, request: pb.GetMetricsRequest, context: _Context
    ) -> pb.GetMetricsResponse:
        """Its value."""
        del context
        scaled = _scaled(request.scaledObjectRef)
        known = self._scaler.metric(scaled).name
        if request.metricName != known:
            raise InvalidRequestError(
                f"metricName '{request.metricName}' is not known for {scaled.namespace}/"
                f"{scaled.name}: GetMetricSpec names '{known}'"
            )
        value = self._scaler.value(scaled)
        return pb.GetMetricsResponse(
            metricValues=[
                pb.MetricValue(metricName=known, metricValue=round(value), metricValueFloat=value)
            ]
        )

    def _spec(self, request: pb.ScaledObjectRef) -> pb.GetMetricSpecResponse:
        metric = self._scaler.metric(_scaled(request))
        spec = pb.MetricSpec(
            metricName=metric.name, targetSize=round(metric.target), targetSizeFloat=metric.target
        )
        return pb.GetMetricSpecResponse(metricSpecs=[spec])


def _scaled(request: pb.ScaledObjectRef) -> ScaledObject:
    return ScaledObject(request.name, request.namespace, dict(request.scalerMetadata))
