"""Access to a server: limits, tokens and deadlines of every call.

A call is checked once, when it begins, before any of its messages is read. ``ErrorInterceptor``
comes first and turns errors, refusals included, into status codes.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NoReturn, cast

import grpc
import grpc.aio
import structlog
from google.protobuf.message import DecodeError

from zerofleet.errors import (
    AccessDeniedError,
    InvalidRequestError,
    OverloadedError,
    PermissionDeniedError,
    UnauthenticatedError,
    ZerofleetError,
)
from zerofleet.rpc.methods import INFERENCE, PLAYER, Malformed, code_of, message_of
from zerofleet.secrets.tokens import Role, Token, find_token

_MAX_CALLS = 16_384
_log = structlog.get_logger()

_aio: Any = grpc.aio  # grpc's types omit EOF

Context = grpc.aio.ServicerContext[Any, Any]
CallScope = Callable[[Context], AbstractAsyncContextManager[None]]
"""Entered when a call begins, before any of its messages is read; left after its handler."""
_SECONDS_BETWEEN_COMPLAINTS = 1.0
_HEALTH = "/grpc.health.v1.Health/"

_BOTH_ROLES: frozenset[Role] = frozenset({"worker", "client"})
_TENSORS = (
    "ServerLive",
    "ServerReady",
    "ModelReady",
    "ServerMetadata",
    "ModelMetadata",
    "ModelConfig",
    "ModelInfer",
)
_PLAYER = ("Describe", "Predict", "Search", "Analyze", "Play")

_MAY_CALL: Mapping[str, frozenset[Role]] = MappingProxyType(
    {f"/{INFERENCE}/{name}": _BOTH_ROLES for name in _TENSORS}
    | {f"/{INFERENCE}/ModelStreamInfer": frozenset[Role]({"worker"})}
    | {f"/{PLAYER}/{name}": frozenset[Role]({"client"}) for name in _PLAYER}
)
"""Methods allowed for roles other than ``admin``.

Methods that are not listed (statistics, the index of models, reflection, later additions) are for
``admin`` only; health is for every caller.
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server; a call beyond one is refused with RESOURCE_EXHAUSTED.

    Unread answers refuse no call: their streams are not read from.
    """

    calls: int = _MAX_CALLS
    """Calls open at once over all callers, streams included."""
    calls_of_one: int = _MAX_CALLS * 3 // 4
    """Most open calls of one caller: one token, else certificate, else address.

    One token often belongs to a whole fleet, with a stream for each worker; the rest is left for
    others.
    """
    calls_of_connection: int = 1024
    """Calls open at once on one connection.

    Beyond this, HTTP/2 itself refuses: a client waits, or gets UNAVAILABLE, which our clients
    retry.
    """
    unsent_bytes: int = 128 << 20
    """Bytes of answers, over all streams, that clients have not read yet.

    Beyond this limit a stream is read only when all its requests are answered and sent, so each
    stream may add one more answer.
    """
    metadata_bytes: int = 16 * 1024
    """Most bytes of all metadata of one call."""
    call_seconds: float = 60.0
    """Deadline of a unary call that sets none, in seconds. Streams end with their connection."""


def wrap_handler(handler: Any, scope: CallScope) -> Any:  # noqa: ANN401 - of either of gRPC's types
    """Return a method's handler that runs each call inside a scope.

    gRPC reads a single request before it calls a handler, and waits for it forever. So every method
    becomes one with a stream of requests, which is the same on the wire, and a single request is
    read inside.
    """
    behavior: Any = (
        handler.stream_stream or handler.unary_stream or handler.stream_unary or handler.unary_unary
    )
    read = _all_requests if handler.request_streaming else _one_request

    async def answering(requests: Any, context: Context) -> Any:  # noqa: ANN401
        async with scope(context):
            return await behavior(await read(requests, context), context)

    async def yielding(requests: Any, context: Context) -> AsyncIterator[Any]:  # noqa: ANN401
        async with scope(context):
            async for response in behavior(await read(requests, context), context):
                yield response

    make: Any = grpc.stream_unary_rpc_method_handler
    if handler.response_streaming:
        make = grpc.stream_stream_rpc_method_handler
    chosen: Any = yielding if inspect.isasyncgenfunction(behavior) else answering
    return make(chosen, handler.request_deserializer, handler.response_serializer)


async def _all_requests(requests: Any, context: Context) -> Any:  # noqa: ANN401
    del context
    return requests


async def _one_request(requests: Any, context: Context) -> Any:  # noqa: ANN401
    del requests
    try:
        request: Any = await context.read()
    except DecodeError:
        request = Malformed()
    if request is _aio.EOF:
        raise InvalidRequestError("the call ended before its request came")
    if isinstance(request, Malformed):
        raise InvalidRequestError("the message is not one of this method's requests")
    return request


class ErrorInterceptor(grpc.aio.ServerInterceptor):
    """Turns the exceptions of a call into its status code; the first of all interceptors.

    In ``ModelStreamInfer`` these are refusals of the whole call; an error in one of its requests is
    answered in the stream.
    """

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:  # noqa: ANN401 - of either of gRPC's types
        """Wrap the handler of one call."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        method = handler_call_details.method

        @contextlib.asynccontextmanager
        async def scope(context: Context) -> AsyncGenerator[None]:
            try:
                yield
            except Exception as error:
                await _abort(error, method, context)

        return wrap_handler(handler, scope)


async def _abort(error: Exception, method: str, context: Context) -> NoReturn:
    """End a call with the status of an error.

    gRPC itself ends a call whose message is too large or whose client is gone. To read from it or
    to write to it then fails, which is no error: such a call is cancelled a moment later.
    """
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if isinstance(error, grpc.aio.InternalError):
        raise asyncio.CancelledError from error
    if not isinstance(error, ZerofleetError):
        _log.error("call_failed", method=method, exc_info=error)
    try:
        await context.abort(code_of(error), message_of(error))
    except grpc.aio.InternalError as ended:
        raise asyncio.CancelledError from ended


def _check_access(tokens: Iterable[Token], method: str, authorization: Sequence[str]) -> Token:
    """Return the token of a call that is allowed.

    Args:
        tokens: the accepted tokens.
        method: its path, such as ``/zerofleet.v1.Player/Play``.
        authorization: the values of the metadata of that name.

    Raises:
        UnauthenticatedError: there is no token, or it is not one of these.
        PermissionDeniedError: its role may not call this method.
    """
    if len(authorization) != 1:
        raise UnauthenticatedError("this server wants one token: authorization: Bearer TOKEN")
    scheme, _, presented = authorization[0].partition(" ")
    token = find_token(tokens, presented.strip()) if scheme.lower() == "bearer" else None
    if token is None:
        raise UnauthenticatedError("this server does not know the token that was sent")
    if token.role != "admin" and token.role not in _MAY_CALL.get(method, frozenset()):
        raise PermissionDeniedError(
            f"the token '{token.name}' has the role {token.role}, which may not call {method}"
        )
    return token


class _Room:
    """Counts the open calls of each caller, and refuses further ones at ``most``."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    @contextlib.contextmanager
    def taken(self, caller: str) -> Generator[None]:
        """Count a call of this caller while it is open.

        Raises:
            OverloadedError: the caller has too many.
        """
        if self._open[caller] >= self._most:
            calls = "1 call" if self._most == 1 else f"{self._most} calls"
            raise OverloadedError(f"{caller} has {calls} open, the most that are allowed")
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]  # otherwise addresses would accumulate


class AuthenticationInterceptor(grpc.aio.ServerInterceptor):
    """Admits callers with the right to call; inside ``ErrorInterceptor``, which words refusals.

    Health needs no token, but its calls count against the caller's limit.

    Args:
        tokens: returns the currently accepted tokens; None: no token is required.
    """

    def __init__(self, limits: Limits, tokens: Callable[[], Sequence[Token]] | None = None) -> None:
        self._limits = limits
        self._tokens = tokens
        self._room = _Room(limits.calls_of_one)
        self._next_complaint = 0.0
        self._refusals_unlogged = 0

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:  # noqa: ANN401 - of either of gRPC's types
        """Wrap the handler of one call."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        details = handler_call_details
        is_unary = not handler.request_streaming and not handler.response_streaming

        @contextlib.asynccontextmanager
        async def scope(context: Context) -> AsyncGenerator[None]:
            caller = self._caller(details, context)
            with self._room.taken(caller):
                if not is_unary or _has_deadline(context):
                    yield
                    return
                async with self._deadline(context):
                    yield

        return wrap_handler(handler, scope)

    def _caller(self, details: grpc.HandlerCallDetails, context: Context) -> str:
        method: str = details.method
        if self._tokens is None or method.startswith(_HEALTH):
            return _peer(context)
        metadata: Any = details.invocation_metadata
        sent = [str(value) for key, value in metadata if key == "authorization"]
        try:
            return f"token '{_check_access(self._tokens(), method, sent).name}'"
        except AccessDeniedError as error:
            self._complain(error, context)
            raise

    def _complain(self, error: ZerofleetError, context: Context) -> None:
        """Log a refused caller, but not each time, because a caller may retry endlessly."""
        now = time.monotonic()
        if now < self._next_complaint:
            self._refusals_unlogged += 1
            return
        self._next_complaint = now + _SECONDS_BETWEEN_COMPLAINTS
        _log.warning(
            "call_refused",
            reason=str(error),
            peer=_peer(context),
            not_logged=self._refusals_unlogged,
        )
        self._refusals_unlogged = 0

    @contextlib.asynccontextmanager
    async def _deadline(self, context: Context) -> AsyncGenerator[None]:
        """Apply the server's own deadline to a call without one."""
        seconds = self._limits.call_seconds
        timeout = asyncio.timeout(seconds)
        try:
            async with timeout:
                yield
        except TimeoutError:
            if not timeout.expired():
                raise
            await context.abort(
                grpc.StatusCode.DEADLINE_EXCEEDED,
                f"this call set no deadline, and the server's own of {seconds:g} s is over",
            )


def _has_deadline(context: Context) -> bool:
    """Return whether the client set a deadline."""
    return cast("float | None", context.time_remaining()) is not None


def _peer(context: Context) -> str:
    """Return the caller by certificate, or else by address without its random port."""
    shown: Any = context.auth_context()
    for key in ("x509_common_name", "x509_subject_alternative_name"):
        for name in shown.get(key, ()):
            return f"certificate '{name.decode(errors='replace')}'"
    return f"address {context.peer().rpartition(':')[0]}"
