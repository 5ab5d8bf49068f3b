"""Names of the services, their handlers, and the table of status codes, for both ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf import message_factory
from google.protobuf.message import DecodeError, Message
from grpc import StatusCode

from zerofleet.errors import (
    IllegalActionError,
    IncompatibleModelError,
    InferenceUnavailableError,
    InvalidRequestError,
    ModelNotFoundError,
    OverloadedError,
    PermissionDeniedError,
    StoreUnavailableError,
    UnauthenticatedError,
    ZerofleetError,
)
from zerofleet.rpc.schema import service

INFERENCE = "inference.GRPCInferenceService"
PLAYER = "zerofleet.v1.Player"
SCALER = "externalscaler.ExternalScaler"

# The first row whose class fits an error gives its code; the first row whose code fits gives the
# class that a client raises. So the order matters where one side occurs twice.
_TABLE: tuple[tuple[type[ZerofleetError], StatusCode], ...] = (
    (InvalidRequestError, StatusCode.INVALID_ARGUMENT),
    (IllegalActionError, StatusCode.INVALID_ARGUMENT),
    (ModelNotFoundError, StatusCode.NOT_FOUND),
    (IncompatibleModelError, StatusCode.FAILED_PRECONDITION),
    (OverloadedError, StatusCode.RESOURCE_EXHAUSTED),
    (UnauthenticatedError, StatusCode.UNAUTHENTICATED),
    (PermissionDeniedError, StatusCode.PERMISSION_DENIED),
    (InferenceUnavailableError, StatusCode.UNAVAILABLE),
    (StoreUnavailableError, StatusCode.UNAVAILABLE),
    (InvalidRequestError, StatusCode.UNIMPLEMENTED),
    (ZerofleetError, StatusCode.INTERNAL),
)

# An error may repeat text from a stranger. Messages are sent in the metadata, which has 8 KiB.
_MOST_CHARACTERS = 1_000

# gRPC itself returns this code for a message over the size limit, which a retry cannot fix.
_MESSAGE_TOO_LARGE = "larger than max"


class Malformed:
    """Stands for bytes that are not a message of the method's request type."""


def _parser(request: type[Message]) -> Callable[[bytes], Message | Malformed]:
    """Parse without raising: gRPC would log a traceback and return an unknown error."""

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


def code_of(error: BaseException) -> StatusCode:
    """Return the status code of an error; INTERNAL for an unforeseen one."""
    for kind, code in _TABLE:
        if isinstance(error, kind):
            return code
    return StatusCode.INTERNAL


def message_of(error: BaseException) -> str:
    """Return the message for the client; an unforeseen error reveals nothing of the inside."""
    if not isinstance(error, ZerofleetError):
        return "internal error of the server"
    message = str(error)
    return message if len(message) <= _MOST_CHARACTERS else f"{message[:_MOST_CHARACTERS]}..."


def error_of(code: StatusCode, details: str) -> ZerofleetError:
    """Return the error that a client raises for a code.

    Codes outside the table (deadline exceeded, internal, aborted, ...) become
    ``InferenceUnavailableError``. They are worth a retry, perhaps on another server, because every
    request is pure.
    """
    if code is StatusCode.RESOURCE_EXHAUSTED and _MESSAGE_TOO_LARGE in details:
        return InvalidRequestError(details)
    for kind, known in _TABLE:
        if known is code and kind is not ZerofleetError:
            return kind(details)
    return InferenceUnavailableError(f"{code.name}: {details}")


def code_from_name(name: str) -> StatusCode:
    """Return the code with this name; INTERNAL for an unknown name."""
    return StatusCode.__members__.get(name, StatusCode.INTERNAL)
