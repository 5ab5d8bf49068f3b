"""The autoscaler with certificates: KEDA shows one and sends no token."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path

import grpc
import grpc.aio
import pytest

from zerofleet.rpc.channel import Channel, unary
from zerofleet.rpc.methods import SCALER
from zerofleet.rpc.scaler import ScaledObject, ScalerServer
from zerofleet.rpc.schema import externalscaler as pb
from zerofleet.rpc.tls import ServerCredentials


class Three:
    """Three replicas at every call."""

    def metric(self, scaled: ScaledObject) -> str:
        del scaled
        return "replicas"

    def replicas(self, scaled: ScaledObject) -> int:
        del scaled
        return 3


@contextlib.asynccontextmanager
async def serving(credentials: ServerCredentials) -> AsyncGenerator[str]:
    async with ScalerServer("127.0.0.1:0", Three(), credentials) as server:
        yield f"localhost:{server.port}"


async def replicas(address: str, folder: Path | None) -> float:
    """Return the replicas that KEDA is told with the certificate in a folder."""
    channel = Channel(address, tls_folder=folder)
    try:
        ask = unary(channel, SCALER, "GetMetrics", pb.GetMetricsRequest, pb.GetMetricsResponse)
        metadata: Mapping[str, str] = {"role": "selfplay"}
        reference = pb.ScaledObjectRef(name="o", namespace="n", scalerMetadata=metadata)
        found = await ask(
            pb.GetMetricsRequest(scaledObjectRef=reference, metricName="replicas"), timeout=120
        )
        return found.metricValues[0].metricValueFloat
    finally:
        await channel.close()


async def test_a_certificate_is_wanted_and_no_token(
    tls: Callable[[str], Path], fleet_secrets: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(tls("keda") / "ca.crt", bare / "ca.crt")
    credentials = ServerCredentials(
        tls("autoscaler"), token_roles_file=fleet_secrets / "tokens" / "roles.toml"
    )
    async with serving(credentials) as address:
        assert await replicas(address, tls("keda")) == 3.0
        for folder in (bare, None):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await replicas(address, folder)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
