"""The server's gate: who calls, whether they may, whether there is room, and until when.

A call passes it once, when it begins, before any message of it is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, cast

import grpc
import grpc.aio
import structlog

from zerofleet.errors import AccessDeniedError, ZerofleetError
from zerofleet.rpc.access import HEALTH, check_access
from zerofleet.rpc.handlers import Context, surrounded
from zerofleet.rpc.limits import Limits, Room
from zerofleet.secrets.tokens import Token

_log = structlog.get_logger()

_SECONDS_BETWEEN_COMPLAINTS = 1.0


class Gate(grpc.aio.ServerInterceptor):
    """Lets in whoever may call; stands inside ``ErrorInterceptor``, which words its refusals.

    Health is for everybody, but who asks has no more room than others.

    Args:
        limits: of the server.
        tokens: those that are accepted at this moment; None: no token is asked for.
    """

    def __init__(self, limits: Limits, tokens: Callable[[], Sequence[Token]] | None = None) -> None:
        self._limits = limits
        self._tokens = tokens
        self._room = Room(limits.calls_of_one)
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
        async def around(context: Context) -> AsyncGenerator[None]:
            caller = self._caller(details, context)
            with self._room.taken(caller):
                if not is_unary or _has_deadline(context):
                    yield
                    return
                async with self._deadline(context):
                    yield

        return surrounded(handler, around)

    def _caller(self, details: grpc.HandlerCallDetails, context: Context) -> str:
        method: str = details.method
        if self._tokens is None or method.startswith(HEALTH):
            return _peer(context)
        metadata: Any = details.invocation_metadata
        sent = [str(value) for key, value in metadata if key == "authorization"]
        try:
            return f"token '{check_access(self._tokens(), method, sent).name}'"
        except AccessDeniedError as error:
            self._complain(error, context)
            raise

    def _complain(self, error: ZerofleetError, context: Context) -> None:
        """Say who was refused; not each time, for it costs them nothing to be refused."""
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
    """Who calls, by certificate or else by address, without the port, which is chance."""
    shown: Any = context.auth_context()
    for key in ("x509_common_name", "x509_subject_alternative_name"):
        for name in shown.get(key, ()):
            return f"certificate '{name.decode(errors='replace')}'"
    return f"address {context.peer().rpartition(':')[0]}"
