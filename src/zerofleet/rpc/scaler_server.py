"""The gRPC server of an external scaler: health, the one service, a clean end."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer

from zerofleet.rpc.credentials import ServerCredentials
from zerofleet.rpc.limits import Limits
from zerofleet.rpc.methods import SCALER, generic_handler
from zerofleet.rpc.scaler import Scaler
from zerofleet.rpc.scaler_servicer import ScalerServicer
from zerofleet.rpc.server import bare_server, bind


class ScalerServer:
    """Serves KEDA from ``async with`` on.

    Args:
        address: ``host:port`` (port 0: any free one) or ``unix:path``.
        scaler: knows the answers.
        credentials: what to show, and whom to let in. KEDA sends no token: to have it prove itself,
            ask for its certificate.

    Raises:
        ConfigError: on entering, when the address cannot be bound or would be plaintext for others,
            or a certificate cannot be used.
    """

    def __init__(self, address: str, scaler: Scaler, credentials: ServerCredentials) -> None:
        self._address = address
        self._servicer = ScalerServicer(scaler)
        self._credentials = replace(credentials, token_roles_file=None)
        self.port = 0
        """The port that is bound, once entered (0 for a unix socket)."""

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
        """Refuse new calls, answer those that came, end the streams; at most ``grace`` seconds."""
        await self._health.enter_graceful_shutdown()
        self._servicer.drain()
        await self._server.stop(grace)
