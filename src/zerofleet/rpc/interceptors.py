"""The server's interceptor: an error of ours ends its sender's call with the right status code."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, NoReturn

import grpc
import grpc.aio
import structlog

from zerofleet.errors import ZerofleetError
from zerofleet.rpc import status
from zerofleet.rpc.handlers import Context, surrounded

_log = structlog.get_logger()


class ErrorInterceptor(grpc.aio.ServerInterceptor):
    """Turns the exceptions of a call into its status code; the first of all interceptors.

    In ``ModelStreamInfer`` these are refusals of the whole call: an error that belongs to one of
    its requests is answered there.
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
        async def around(context: Context) -> AsyncGenerator[None]:
            try:
                yield
            except Exception as error:
                await _abort(error, method, context)

        return surrounded(handler, around)


async def _abort(error: Exception, method: str, context: Context) -> NoReturn:
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if not isinstance(error, ZerofleetError):
        _log.error("call_failed", method=method, exc_info=error)
    await context.abort(status.code_of(error), status.message_of(error))
