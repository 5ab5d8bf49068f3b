"""Doing something around every call of a method, whatever kind of method it is."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from zerofleet.errors import InvalidRequestError
from zerofleet.rpc.methods import Malformed

_aio: Any = grpc.aio  # whose types leave EOF out

Context = grpc.aio.ServicerContext[Any, Any]
Around = Callable[[Context], AbstractAsyncContextManager[None]]
"""Entered when a call begins, before anything that it sends is read; left after its handler."""


def surrounded(handler: Any, around: Around) -> Any:  # noqa: ANN401 - of either of gRPC's types
    """A method's handler with ``around`` about each of its calls.

    gRPC reads a single request before it calls a handler, and waits for it for ever. So every
    method becomes one whose requests are a stream, which is the same on the wire, and a single
    request is read inside.
    """
    behavior: Any = (
        handler.stream_stream or handler.unary_stream or handler.stream_unary or handler.unary_unary
    )
    given = _all_requests if handler.request_streaming else _one_request

    async def answering(requests: Any, context: Context) -> Any:  # noqa: ANN401
        async with around(context):
            return await behavior(await given(requests, context), context)

    async def yielding(requests: Any, context: Context) -> AsyncIterator[Any]:  # noqa: ANN401
        async with around(context):
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
