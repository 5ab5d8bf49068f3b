"""Health on a separate port, for probes that have neither certificate nor token.

Threads answer it, not the service's event loop, so that it can report a stuck loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import grpc
from grpc_health.v1 import health_pb2

from zerofleet.errors import ConfigError
from zerofleet.rpc.server import CONNECTION_OPTIONS, check_free
from zerofleet.rpc.tls import listen_for_probes

LIVE = "live"
"""Name under which every service reports only whether its loop runs."""

_STUCK_SECONDS = 60.0
_TICK_SECONDS = 1.0
_THREADS = 2
_MAX_CALLS = 16  # a probe is one short call; more than these wait
_MAX_CONNECTIONS = 64  # gRPC closes connections beyond this


class HealthServer:
    """Answers only ``grpc.health.v1``, for the time of the block, in plaintext.

    The name ``live`` is SERVING while the service ticks; the others while it also reports ready. A
    liveness probe asks for ``live``, a readiness probe for any other name.

    Args:
        address: ``host:port``; None: nothing is served.
        ready: returns whether the service can do its work; by default always.
        names: further names to answer to, in addition to the empty one.
        stuck_seconds: after this long without a tick, the service counts as stuck.
    """

    def __init__(
        self,
        address: str | None,
        *,
        ready: Callable[[], bool] = lambda: True,
        names: Sequence[str] = (),
        stuck_seconds: float = _STUCK_SECONDS,
    ) -> None:
        self._address = address
        self._ready = ready
        self._names = ("", *names)
        self._stuck_seconds = stuck_seconds
        self._last_tick = time.monotonic()
        self._server: grpc.Server | None = None
        self.port = 0
        """The bound port, once entered."""

    def __enter__(self) -> Self:
        self.tick()
        if self._address is not None:
            self._server = self._start(self._address)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._server is not None:
            self._server.stop(0).wait()
            self._server = None

    def tick(self) -> None:
        """Record that the loop runs."""
        self._last_tick = time.monotonic()

    async def keep_ticking(self) -> None:
        """Tick while the event loop runs; for a service's ``first_of``."""
        while True:
            self.tick()
            await asyncio.sleep(_TICK_SECONDS)

    def _start(self, address: str) -> grpc.Server:
        server = grpc.server(
            ThreadPoolExecutor(_THREADS, thread_name_prefix="health"),
            options=[
                *CONNECTION_OPTIONS,
                ("grpc.max_allowed_incoming_connections", _MAX_CONNECTIONS),
                ("grpc.so_reuseport", 0),
            ],
            maximum_concurrent_rpcs=_MAX_CALLS,
        )
        check = grpc.unary_unary_rpc_method_handler(
            self._check,
            health_pb2.HealthCheckRequest.FromString,
            health_pb2.HealthCheckResponse.SerializeToString,
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": check}),)
        )
        check_free(address, setting="ZEROFLEET_HEALTH_ADDRESS")
        try:
            self.port = listen_for_probes(server, address)
        except RuntimeError as error:
            raise ConfigError(
                f"cannot serve health on '{address}': give a free host:port in "
                "ZEROFLEET_HEALTH_ADDRESS"
            ) from error
        server.start()
        return server

    def _check(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: ANN401
        name: str = request.service
        if name != LIVE and name not in self._names:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no service is named '{name}' here")
        runs = time.monotonic() - self._last_tick < self._stuck_seconds
        serving = runs and (name == LIVE or self._ready())
        response = health_pb2.HealthCheckResponse
        return response(status=response.SERVING if serving else response.NOT_SERVING)
