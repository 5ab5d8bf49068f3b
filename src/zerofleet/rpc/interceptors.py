"""What wraps every call of the server; here, what turns our errors into status codes."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, NoReturn

import grpc
import grpc.aio
import structlog
from google.protobuf.message import DecodeError

from zerofleet.errors import InvalidRequestError, ZerofleetError
from zerofleet.rpc import status_codes
from zerofleet.rpc.methods import Malformed

_log = structlog.get_logger()

_aio: Any = grpc.aio  # whose types leave EOF out

Context = grpc.aio.ServicerContext[Any, Any]
CallScope = Callable[[Context], AbstractAsyncContextManager[None]]
"""Entered when a call begins, before anything that it sends is read; left after its handler."""


def wrap_handler(handler: Any, scope: CallScope) -> Any:  # noqa: ANN401 - of either of gRPC's types
    """A method's handler, each of whose calls runs inside a scope.

    gRPC reads a single request before it calls a handler, and waits for it for ever. So every
    method becomes one whose requests are a stream, which is the same on the wire, and a single
    request is read inside.
    """
    behavior: Any = (
        handler.stream_stream or handler.unary_stream or handler.stream_unary or handler.unary_unary
    )
    given = _all_requests if handler.request_streaming else _one_request

    async def answering(requests: Any, context: Context) -> Any:  # noqa: ANN401
        async with scope(context):
            return await behavior(await given(requests, context), context)

    async def yielding(requests: Any, context: Context) -> AsyncIterator[Any]:  # noqa: ANN401
        async with scope(context):
            async for response in behavior(await given(requests, context), context):
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
        async def scope(context: Context) -> AsyncGenerator[None]:
            try:
                yield
            except Exception as error:
                await _abort(error, method, context)

        return wrap_handler(handler, scope)


async def _abort(error: Exception, method: str, context: Context) -> NoReturn:
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if not isinstance(error, ZerofleetError):
        _log.error("call_failed", method=method, exc_info=error)
    await context.abort(status_codes.code_of(error), status_codes.message_of(error))
