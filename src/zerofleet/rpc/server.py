"""One gRPC server for both services, with health, reflection, limits and a clean shutdown."""

from __future__ import annotations

import resource
import socket
from types import TracebackType
from typing import Self

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from zerofleet.errors import ConfigError
from zerofleet.rpc.access import AuthenticationInterceptor, ErrorInterceptor, Limits
from zerofleet.rpc.codec import MAX_MESSAGE_BYTES
from zerofleet.rpc.inference_service import InferenceBackend, InferenceServicer
from zerofleet.rpc.methods import INFERENCE, PLAYER, generic_handler
from zerofleet.rpc.player_service import MAX_POSITION_BYTES, PlayerBackend, PlayerServicer
from zerofleet.rpc.schema import POOL
from zerofleet.rpc.tls import ServerCredentials, followed_certificates, listen, server_credentials
from zerofleet.secrets.files import Followed
from zerofleet.secrets.tokens import read_tokens

_LOCAL = ServerCredentials()
_LIMITS = Limits()

# A connection is closed gracefully after this long (jittered by gRPC), so that clients spread over
# new servers. Its open calls may continue; clients end their streams sooner.
_CONNECTION_SECONDS = 300
_GRACE_SECONDS = 600
_GREETING_SECONDS = 10
_RESERVED_FILES = 256  # for stores, models and libraries: connections must not take these
_FEWEST_CONNECTIONS = 16

# gRPC's own limit, for servers whose requests are small.
_SMALL_REQUEST_BYTES = 4 << 20
# Size of a request without its rows or its position: names, parameters, options.
_OTHER_BYTES = 128 << 10

CONNECTION_OPTIONS = (
    ("grpc.max_connection_age_ms", 1000 * _CONNECTION_SECONDS),
    ("grpc.max_connection_age_grace_ms", 1000 * _GRACE_SECONDS),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # A client that connects and sends nothing holds a descriptor for this long. One that does not
    # acknowledge our SETTINGS, which bind it only then, holds the memory of its calls.
    ("grpc.server_handshake_timeout_ms", 1000 * _GREETING_SECONDS),
    ("grpc.http2.settings_timeout", 1000 * _GREETING_SECONDS),
)
"""Limits on how long clients may hold a connection, also on the health port."""

_OPTIONS = (
    *CONNECTION_OPTIONS,
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # New calls wait for the loop to accept them. gRPC's own limits are 1,000 calls and 30 s, with
    # which valid calls of a burst were cancelled.
    ("grpc.server.max_pending_requests", 16_384),
    ("grpc.server.max_pending_requests_hard_limit", 32_768),
    ("grpc.server_max_unrequested_time_in_server", 60),
    # Clients ping every 30 s; one that pings more often than this is disconnected.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
)


class Server:
    """Serves from ``async with`` on; health is NOT_SERVING until ``set_serving(True)``.

    Args:
        address: ``host:port`` (port 0: any free one) or ``unix:path``.
        inference: runs the models.
        player: answers requests about positions; unset: only tensors are served.
        reflection: send the schema to every client that requests it.
        share_port: let other processes with this option listen there too; the kernel assigns each
            connection to one of them.
        credentials: the server's certificate, and the accepted clients.

    Raises:
        ConfigError: on entering, if the address cannot be bound or would be plaintext for others,
            or a file of the credentials cannot be used.
    """

    def __init__(
        self,
        address: str,
        *,
        inference: InferenceBackend,
        player: PlayerBackend | None = None,
        reflection: bool = False,
        share_port: bool = False,
        credentials: ServerCredentials = _LOCAL,
        limits: Limits = _LIMITS,
    ) -> None:
        self._address = address
        self._share_port = share_port
        self._credentials = credentials
        self._limits = limits
        self._backend = inference
        self._inference = InferenceServicer(inference, limits.unsent_bytes)
        self._player = None if player is None else PlayerServicer(player)
        self._reflection = reflection
        self._names: tuple[str, ...] = (INFERENCE,) if player is None else (INFERENCE, PLAYER)
        self._serving: bool | None = None
        self.port = 0
        """The bound port, once entered (0 for a unix socket)."""

    async def __aenter__(self) -> Self:
        self._server = bare_server(
            self._credentials,
            self._limits,
            share_port=self._share_port,
            request_bytes=_request_bytes(self._backend),
        )
        self._health = HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(  # pyright: ignore[reportUnknownMemberType]
            self._health, self._server
        )
        self._server.add_generic_rpc_handlers((generic_handler(INFERENCE, self._inference),))
        if self._player is not None:
            self._server.add_generic_rpc_handlers((generic_handler(PLAYER, self._player),))
        if self._reflection:
            names = (*self._names, "grpc.health.v1.Health", reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, self._server, pool=POOL)
        self.port = bind(
            self._server, self._address, self._credentials, share_port=self._share_port
        )
        await self.set_serving(False)
        await self._server.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._server.stop(0)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the services in the health service."""
        return self._names

    @property
    def serving(self) -> bool:
        """State of the health service."""
        return bool(self._serving)

    async def set_serving(self, serving: bool) -> None:
        """Set the state of the health service, for the server and for each service."""
        if serving == self._serving:
            return
        self._serving = serving
        status = health_pb2.HealthCheckResponse.SERVING
        if not serving:
            status = health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", *self._names):
            await self._health.set(name, status)

    async def drain(self, grace: float) -> None:
        """Refuse new calls, answer open ones, then stop; at most ``grace`` seconds."""
        self._serving = False
        await self._health.enter_graceful_shutdown()
        self._inference.drain()
        await self._server.stop(grace)


def _request_bytes(backend: InferenceBackend) -> int:
    """Return the bytes of the largest valid request.

    A message is parsed before it can be checked, and one with only empty inputs takes 45 times its
    size in memory.
    """
    shapes = [backend.shape(run) for run in backend.runs()]
    rows = max((shape.max_batch_rows * shape.observation_bytes for shape in shapes), default=0)
    return rows + MAX_POSITION_BYTES + _OTHER_BYTES


def bare_server(
    credentials: ServerCredentials,
    limits: Limits,
    *,
    share_port: bool = False,
    request_bytes: int = _SMALL_REQUEST_BYTES,
) -> grpc.aio.Server:
    """Return a server without services that authenticates and limits calls and words their errors.

    Args:
        credentials: credentials with the accepted tokens.
        share_port: share the port with other processes.
        request_bytes: largest incoming message; a larger one is not read.

    Raises:
        ConfigError: the file of tokens cannot be used.
    """
    path, tokens = credentials.token_roles_file, None
    if path is not None:
        tokens = Followed([path], lambda: read_tokens(path)).get
    options = (
        *_OPTIONS,
        ("grpc.max_receive_message_length", request_bytes),
        ("grpc.max_concurrent_streams", limits.calls_of_connection),
        # Soft and hard limit: between the two gRPC would refuse calls at random.
        ("grpc.max_metadata_size", limits.metadata_bytes),
        ("grpc.absolute_max_metadata_size", limits.metadata_bytes),
        ("grpc.max_allowed_incoming_connections", _most_connections()),
        # By default gRPC would share, and a second server would get every other connection.
        ("grpc.so_reuseport", int(share_port)),
    )
    return grpc.aio.server(
        interceptors=(ErrorInterceptor(), AuthenticationInterceptor(limits, tokens)),
        options=options,
        maximum_concurrent_rpcs=limits.calls,
    )


def _most_connections() -> int:
    """Return how many connections leave this process enough files; gRPC closes others."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return (1 << 31) - 1
    return max(files - _RESERVED_FILES, _FEWEST_CONNECTIONS)


def bind(
    server: grpc.aio.Server,
    address: str,
    credentials: ServerCredentials,
    *,
    share_port: bool = False,
) -> int:
    """Let a server listen, with TLS if there are certificates; return the port (0: a unix socket).

    Raises:
        ConfigError: the address cannot be bound or would be plaintext for others, or a certificate
            cannot be used.
    """
    tls = None
    if credentials.tls_folder is not None:
        certificates = followed_certificates(credentials.tls_folder, server=True)
        required = credentials.client_certificates == "required"
        tls = server_credentials(certificates, require_client=required)
    check_free(address, shared=share_port)
    try:
        return listen(server, address, credentials, tls)
    except RuntimeError as error:
        raise _cannot_listen(address, "it is in use or not of this machine") from error


def check_free(
    address: str, *, shared: bool = False, setting: str = "ZEROFLEET_LISTEN_ADDRESS"
) -> None:
    """Check an address before gRPC does, whose errors do not name the cause.

    Args:
        address: ``host:port``; gRPC checks other forms.
        shared: servers that share their port may have it already.
        setting: setting of the address, for the message.

    Raises:
        ConfigError: it cannot be bound.
    """
    host, colon, port = address.rpartition(":")
    if address.startswith("unix:") or not colon:
        return
    try:
        if not 0 <= int(port) <= 65_535:
            raise ValueError("a port is a number up to 65535")
        found = socket.getaddrinfo(
            host.strip("[]") or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, place in found[:1]:
            with socket.socket(family, kind, protocol) as probe:
                # As servers do: a port whose last connections are still closing counts as free.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if shared:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                probe.bind(place)
    except (OSError, OverflowError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _cannot_listen(address, reason, setting) from error


def _cannot_listen(
    address: str, reason: str, setting: str = "ZEROFLEET_LISTEN_ADDRESS"
) -> ConfigError:
    return ConfigError(f"cannot listen on {address}: {reason}; choose another {setting}")
