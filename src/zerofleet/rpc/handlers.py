"""Doing something around every call of a method, whatever kind of method it is."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import grpc
import grpc.aio

Context = grpc.aio.ServicerContext[Any, Any]
Around = Callable[[object, Context], AbstractAsyncContextManager[None]]
"""Entered before a call's handler runs and left after it; given the request (None where requests
are a stream) and the context."""


def surrounded(handler: Any, around: Around) -> Any:  # noqa: ANN401 - of either of gRPC's types
    """A method's handler with ``around`` about each of its calls."""
    if handler.request_streaming and handler.response_streaming:
        make: Any = grpc.stream_stream_rpc_method_handler
        behavior = _streaming(handler.stream_stream, around, lambda requests: None)
    elif handler.response_streaming:
        make = grpc.unary_stream_rpc_method_handler
        behavior = _streaming(handler.unary_stream, around, lambda request: request)
    elif handler.request_streaming:
        make = grpc.stream_unary_rpc_method_handler
        behavior = _answering(handler.stream_unary, around, lambda requests: None)
    else:
        make = grpc.unary_unary_rpc_method_handler
        behavior = _answering(handler.unary_unary, around, lambda request: request)
    return make(behavior, handler.request_deserializer, handler.response_serializer)


def _answering(behavior: Any, around: Around, shown: Callable[[Any], object]) -> Any:  # noqa: ANN401
    async def answer(request: Any, context: Context) -> Any:  # noqa: ANN401
        async with around(shown(request), context):
            return await behavior(request, context)

    return answer


def _streaming(behavior: Any, around: Around, shown: Callable[[Any], object]) -> Any:  # noqa: ANN401
    """Of the same style as the handler's own: a generator, or one that writes by itself."""

    async def yielding(request: Any, context: Context) -> AsyncIterator[Any]:  # noqa: ANN401
        async with around(shown(request), context):
            async for response in behavior(request, context):
                yield response

    async def writing(request: Any, context: Context) -> None:  # noqa: ANN401
        async with around(shown(request), context):
            await behavior(request, context)

    return yielding if inspect.isasyncgenfunction(behavior) else writing
