"""Handlers and stubs made from the schema's descriptors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf import message_factory
from google.protobuf.message import DecodeError, Message

from zerofleet.rpc.channel import Channel
from zerofleet.rpc.schema import service

INFERENCE = "inference.GRPCInferenceService"
PLAYER = "zerofleet.v1.Player"
SCALER = "externalscaler.ExternalScaler"

_Request = TypeVar("_Request", bound=Message)
_Response = TypeVar("_Response", bound=Message)


class Malformed:
    """Stands for bytes that are no message of the method's request."""


def _parser(request: type[Message]) -> Callable[[bytes], Message | Malformed]:
    """Parse without raising: gRPC would log a traceback and say that it does not know why."""

    def parse(content: bytes) -> Message | Malformed:
        try:
            return request.FromString(content)
        except DecodeError:
            return Malformed()

    return parse


def generic_handler(service_name: str, servicer: object) -> grpc.GenericRpcHandler:
    """Serve every method of a service by the servicer's method of the same name.

    Requests of a stream that cannot be parsed reach it as ``Malformed``; single ones are refused.
    """
    make: dict[tuple[bool, bool], Any] = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
    for method in service(service_name).methods:
        request = message_factory.GetMessageClass(method.input_type)
        response = message_factory.GetMessageClass(method.output_type)
        handlers[method.name] = make[method.client_streaming, method.server_streaming](
            getattr(servicer, method.name), _parser(request), response.SerializeToString
        )
    return grpc.method_handlers_generic_handler(service_name, handlers)


def unary(
    channel: grpc.aio.Channel | Channel,
    service_name: str,
    method: str,
    request: type[_Request],
    response: type[_Response],
) -> grpc.aio.UnaryUnaryMultiCallable[_Request, _Response]:
    """The callable of a unary method."""
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
    """The callable of a method that answers a stream."""
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
    """The callable of a method that takes and answers a stream."""
    return channel.stream_stream(
        f"/{service_name}/{method}", request.SerializeToString, response.FromString
    )
