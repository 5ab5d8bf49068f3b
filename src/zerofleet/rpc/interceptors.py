"""The server's interceptor: an error of ours ends its sender's call with the right status code."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn, TypeVar

import grpc
import grpc.aio
import structlog

from zerofleet.errors import InvalidRequestError, ZerofleetError
from zerofleet.rpc import status
from zerofleet.rpc.methods import Malformed

_log = structlog.get_logger()

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")
_Context = grpc.aio.ServicerContext[Any, Any]
_Unary = Callable[[_Request, _Context], Awaitable[_Response]]
_Stream = Callable[[_Request, _Context], AsyncIterator[_Response]]


class ErrorInterceptor(grpc.aio.ServerInterceptor):
    """Turns exceptions of unary and of server-streaming methods into status codes.

    ``ModelStreamInfer`` stays as it is: its errors belong to one request, not to the stream.
    """

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails],
            Awaitable[grpc.RpcMethodHandler[_Request, _Response] | None],
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[_Request, _Response] | None:
        """Wrap the handler of one call."""
        handler: Any = await continuation(handler_call_details)
        if handler is None or handler.request_streaming:
            return handler
        method = handler_call_details.method
        make: Any
        if handler.response_streaming:
            make = grpc.unary_stream_rpc_method_handler
            behavior: Any = _guard_stream(handler.unary_stream, method)
        else:
            make = grpc.unary_unary_rpc_method_handler
            behavior = _guard_unary(handler.unary_unary, method)
        return make(behavior, handler.request_deserializer, handler.response_serializer)


def _guard_unary(behavior: _Unary[_Request, _Response], method: str) -> _Unary[_Request, _Response]:
    async def guarded(request: _Request, context: _Context) -> _Response:
        try:
            _check(request)
            return await behavior(request, context)
        except Exception as error:
            await _abort(error, method, context)

    return guarded


def _guard_stream(
    behavior: _Stream[_Request, _Response], method: str
) -> _Stream[_Request, _Response]:
    async def guarded(request: _Request, context: _Context) -> AsyncIterator[_Response]:
        try:
            _check(request)
            async for response in behavior(request, context):
                yield response
        except Exception as error:
            await _abort(error, method, context)

    return guarded


def _check(request: object) -> None:
    if isinstance(request, Malformed):
        raise InvalidRequestError("the message is not one of this method's requests")


async def _abort(error: Exception, method: str, context: _Context) -> NoReturn:
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if not isinstance(error, ZerofleetError):
        _log.error("call_failed", method=method, exc_info=error)
    await context.abort(status.code_of(error), status.message_of(error))
