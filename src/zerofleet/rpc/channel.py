"""Client side of connections and calls: credentials, keepalive, stubs and retries."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from zerofleet.errors import (
    AccessDeniedError,
    ConfigError,
    InferenceUnavailableError,
    ZerofleetError,
)
from zerofleet.rpc.codec import MAX_MESSAGE_BYTES
from zerofleet.rpc.methods import error_of
from zerofleet.rpc.tls import Certificates, channel_credentials, dial, followed_certificates
from zerofleet.secrets.files import Followed, read_secret
from zerofleet.waiting import Backoff

_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 0),
    # gRPC waits up to two minutes before it reconnects to a lost server, unless configured
    # otherwise.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # This package retries, once, with a deadline over all tries.
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    # Calls to a name with several addresses (a headless service) are spread, not pinned to the
    # first.
    ("grpc.service_config", json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})),
)

# Calls that are open over replaced certificates may take this long to end; a stream takes less.
_OLD_CHANNEL_SECONDS = 600.0
_Request = TypeVar("_Request", bound=Message)
_Response = TypeVar("_Response", bound=Message)


class Channel:
    """A channel whose calls carry the credentials that are on disk now; used like one of gRPC's.

    gRPC fixes the certificates of a channel when it is made, and reconnects with the same ones. So
    a call that finds them replaced on disk opens a new channel, which later calls use too; open
    calls stay on the old one. The token goes with each call as metadata, because gRPC refuses
    credentials of calls in plaintext.

    Must be made, used and closed in one event loop.

    Args:
        address: ``host:port``, ``unix:path`` or any gRPC target.
        tls_folder: folder of the certificates; None: plaintext.
        token_file: file whose first line is the bearer token; None: no token is sent.
        allow_plaintext: allow a server on another machine without a ``tls_folder``.

    Raises:
        ConfigError: a file cannot be used, or the connection would be plaintext to another machine.
    """

    def __init__(
        self,
        address: str,
        *,
        tls_folder: str | Path | None = None,
        token_file: str | Path | None = None,
        allow_plaintext: bool = False,
    ) -> None:
        self._address = address
        self._allow_plaintext = allow_plaintext
        self._certificates = _certificates(tls_folder)
        self._token = _token(token_file)
        self._closing: set[asyncio.Task[None]] = set()
        self._made_with: Certificates | None = None
        self._channel = self._dial()

    def unary_unary(
        self, method: str, serialize: Callable[[Any], bytes], parse: Callable[[bytes], Any]
    ) -> Any:  # noqa: ANN401 - as grpc.aio.Channel has it
        """See ``grpc.aio.Channel.unary_unary``."""

        def call(request: object, *, timeout: float | None = None) -> Any:  # noqa: ANN401
            made = self._now().unary_unary(method, serialize, parse)
            return made(request, timeout=timeout, metadata=self._metadata())

        return call

    def unary_stream(
        self, method: str, serialize: Callable[[Any], bytes], parse: Callable[[bytes], Any]
    ) -> Any:  # noqa: ANN401
        """See ``grpc.aio.Channel.unary_stream``."""

        def call(request: object, *, timeout: float | None = None) -> Any:  # noqa: ANN401
            made = self._now().unary_stream(method, serialize, parse)
            return made(request, timeout=timeout, metadata=self._metadata())

        return call

    def stream_stream(
        self, method: str, serialize: Callable[[Any], bytes], parse: Callable[[bytes], Any]
    ) -> Any:  # noqa: ANN401
        """See ``grpc.aio.Channel.stream_stream``."""

        def call(*, timeout: float | None = None) -> Any:  # noqa: ANN401
            made = self._now().stream_stream(method, serialize, parse)
            return made(timeout=timeout, metadata=self._metadata())

        return call

    async def close(self) -> None:
        """End every call and close."""
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await self._channel.close()

    def _now(self) -> grpc.aio.Channel:
        if self._certificates is not None and self._certificates.get() is not self._made_with:
            old, self._channel = self._channel, self._dial()
            task = asyncio.create_task(_outlive_calls(old))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        return self._channel

    def _dial(self) -> grpc.aio.Channel:
        tls = None
        if self._certificates is not None:
            self._made_with = self._certificates.get()
            tls = channel_credentials(self._made_with)
        return dial(self._address, _OPTIONS, tls, allow_plaintext=self._allow_plaintext)

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        if self._token is None:
            return ()
        return (("authorization", f"Bearer {self._token.get()}"),)


def _certificates(folder: str | Path | None) -> Followed[Certificates] | None:
    return None if folder is None else followed_certificates(Path(folder), server=False)


def _token(file: str | Path | None) -> Followed[str] | None:
    if file is None:
        return None
    path = Path(file)
    return Followed([path], lambda: read_token(path))


def read_token(path: Path) -> str:
    """Return the token in a file.

    Raises:
        ConfigError: it cannot be read, or cannot be sent.
    """
    token = read_secret(path)
    if not token.isascii() or not token.isprintable():
        raise ConfigError(
            f"the token in {path} has characters that cannot be sent: make one with "
            "`zerofleet token`"
        )
    return token


async def _outlive_calls(old: grpc.aio.Channel) -> None:
    """Close a channel when its calls have ended; gRPC's own grace period ignores streams."""
    try:
        await asyncio.sleep(_OLD_CHANNEL_SECONDS)
    finally:
        await old.close()


def unary(
    channel: grpc.aio.Channel | Channel,
    service_name: str,
    method: str,
    request: type[_Request],
    response: type[_Response],
) -> grpc.aio.UnaryUnaryMultiCallable[_Request, _Response]:
    """Return the callable of a unary method."""
    return channel.unary_unary(
        f"/{service_name}/{method}", request.SerializeToString, response.FromString
    )


def server_stream(
    channel: grpc.aio.Channel | Channel,
    service_name: str,
    method: str,
    request: type[_Request],
    response: type[_Response],
) -> grpc.aio.UnaryStreamMultiCallable[_Request, _Response]:
    """Return the callable of a method with a stream of responses."""
    return channel.unary_stream(
        f"/{service_name}/{method}", request.SerializeToString, response.FromString
    )


def both_streams(
    channel: grpc.aio.Channel | Channel,
    service_name: str,
    method: str,
    request: type[_Request],
    response: type[_Response],
) -> grpc.aio.StreamStreamMultiCallable[_Request, _Response]:
    """Return the callable of a method with streams of requests and responses."""
    return channel.stream_stream(
        f"/{service_name}/{method}", request.SerializeToString, response.FromString
    )


def call_backoff() -> Backoff:
    """Return the pauses between tries of a call: a restarting server is back within seconds."""
    return Backoff(0.05, 2.0)


async def retrying(
    address: str, seconds: float, call: Callable[[float], Awaitable[_Response]]
) -> _Response:
    """Call until a result other than UNAVAILABLE comes back, or the time is over.

    Args:
        address: named in errors.
        seconds: time for all tries together.
        call: makes one try within the remaining seconds.

    Raises:
        ZerofleetError: according to the table of status codes.
    """
    deadline = time.monotonic() + seconds
    backoff = call_backoff()
    failure: ZerofleetError | None = None
    while True:
        try:
            return await call(max(0.001, deadline - time.monotonic()))
        except grpc.aio.AioRpcError as error:
            # The reason why the last try failed is more useful than the expired deadline.
            if failure is None or error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                failure = rpc_error(address, error)
            pause = backoff.delay()
            again = error.code() is grpc.StatusCode.UNAVAILABLE
            if not again or time.monotonic() + pause >= deadline:
                raise failure from error
        await asyncio.sleep(pause)


def rpc_error(address: str, error: grpc.aio.AioRpcError) -> ZerofleetError:
    """Return the error for the caller of a failed call."""
    known = error_of(error.code(), error.details() or "")
    if isinstance(known, (InferenceUnavailableError, AccessDeniedError)):
        return type(known)(f"inference at {address}: {known}")
    return known
