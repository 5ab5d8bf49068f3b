"""Authentication and limits: who calls, whether they may, whether there is room, and until when.

It is asked once for each call, when it begins, before any message of it is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from types import MappingProxyType
from typing import Any, cast

import grpc
import grpc.aio
import structlog

from zerofleet.errors import (
    AccessDeniedError,
    OverloadedError,
    PermissionDeniedError,
    UnauthenticatedError,
    ZerofleetError,
)
from zerofleet.rpc.interceptors import Context, wrap_handler
from zerofleet.rpc.limits import Limits
from zerofleet.rpc.methods import INFERENCE, PLAYER
from zerofleet.secrets.tokens import Role, Token, find_token

_log = structlog.get_logger()

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
"""Methods that not only ``admin`` may call. Whatever is not listed (statistics, the index of
models, reflection, what is added later) is for ``admin`` alone, and health is for every caller."""


def _check_access(tokens: Iterable[Token], method: str, authorization: Sequence[str]) -> Token:
    """The token of a call that may be made.

    Args:
        tokens: that are accepted.
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
    """Counts the calls that each caller has open.

    Args:
        most: of one caller.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    @contextlib.contextmanager
    def taken(self, caller: str) -> Generator[None]:
        """A call of this caller, while it is open.

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
                del self._open[caller]  # or addresses would pile up


class AuthenticationInterceptor(grpc.aio.ServerInterceptor):
    """Lets in the callers that may call; stands inside ``ErrorInterceptor``, which words refusals.

    Health needs no token, but its calls count against the caller's limit.

    Args:
        limits: of the server.
        tokens: those that are accepted at this moment; None: no token is asked for.
    """

    def __init__(self, limits: Limits, tokens: Callable[[], Sequence[Token]] | None = None) -> None:
        self._limits = limits
        self._tokens = tokens
        self._room = _Room(limits.calls_of_one)
        self._next_complaint = 0.0
        self._untold = 0

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:  # noqa: ANN401 - of either of gRPC's types
        """Stand before the handler of one call."""
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
        """Log who was refused; not each time, because a caller may try without end."""
        now = time.monotonic()
        if now < self._next_complaint:
            self._untold += 1
            return
        self._next_complaint = now + _SECONDS_BETWEEN_COMPLAINTS
        _log.warning("call_refused", reason=str(error), peer=_peer(context), untold=self._untold)
        self._untold = 0

    @contextlib.asynccontextmanager
    async def _deadline(self, context: Context) -> AsyncGenerator[None]:
        """The server's own deadline, for a call that has none."""
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
    """Whether the client set one."""
    return cast("float | None", context.time_remaining()) is not None


def _peer(context: Context) -> str:
    """Who calls, by certificate or else by address, without the port, which is random."""
    shown: Any = context.auth_context()
    for key in ("x509_common_name", "x509_subject_alternative_name"):
        for name in shown.get(key, ()):
            return f"certificate '{name.decode(errors='replace')}'"
    return f"address {context.peer().rpartition(':')[0]}"
