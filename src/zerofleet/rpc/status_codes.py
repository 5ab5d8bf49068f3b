"""The only table between our errors and gRPC's status codes, read in both directions."""

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

# The first row whose class fits an error gives its code; the first whose code fits gives the
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

# An error may repeat what a stranger sent; its words travel among the metadata, which have 8 KiB.
_MOST_CHARACTERS = 1_000

# gRPC itself gives this code for a message over the size limit, which no waiting will cure.
_MESSAGE_TOO_LARGE = "larger than max"


def code_of(error: BaseException) -> StatusCode:
    """The code that tells a client of ``error``; INTERNAL for whatever was not foreseen."""
    for kind, code in _TABLE:
        if isinstance(error, kind):
            return code
    return StatusCode.INTERNAL


def message_of(error: BaseException) -> str:
    """What a client is told; nothing of the inside for an error that was not foreseen."""
    if not isinstance(error, ZerofleetError):
        return "internal error of the server"
    message = str(error)
    return message if len(message) <= _MOST_CHARACTERS else f"{message[:_MOST_CHARACTERS]}..."


def error_of(code: StatusCode, details: str) -> ZerofleetError:
    """The error that a client raises for a code.

    Whatever is not in the table (deadline exceeded, internal, aborted, ...) is worth another try,
    perhaps on another server, because every request is pure: ``InferenceUnavailableError``.
    """
    if code is StatusCode.RESOURCE_EXHAUSTED and _MESSAGE_TOO_LARGE in details:
        return InvalidRequestError(details)
    for kind, known in _TABLE:
        if known is code and kind is not ZerofleetError:
            return kind(details)
    return InferenceUnavailableError(f"{code.name}: {details}")


def code_from_name(name: str) -> StatusCode:
    """The code with this name; INTERNAL for a name that is none."""
    return StatusCode.__members__.get(name, StatusCode.INTERNAL)
