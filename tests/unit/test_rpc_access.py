"""Calls that end by an error: their status, and what the log says."""

import asyncio
from typing import Any, cast

import grpc
import grpc.aio
import pytest
from structlog.testing import capture_logs

from zerofleet.rpc.access import ErrorInterceptor

EOF: Any = cast("Any", grpc.aio).EOF


class EndedCall:
    """A call that gRPC has ended, as it does when a message is too large."""

    async def read(self) -> Any:
        return EOF

    async def abort(self, *status: object) -> None:
        raise grpc.aio.InternalError(f"Failed to execute batch: {status}")


async def end(behavior: Any) -> None:
    """Let one call run into its error."""
    handler = grpc.unary_unary_rpc_method_handler(behavior)

    async def continuation(details: object) -> Any:
        return handler

    details: Any = type("Details", (), {"method": "/a.Service/Call"})
    wrapped = await ErrorInterceptor().intercept_service(continuation, details)
    await wrapped.stream_unary(None, EndedCall())


async def unreachable(request: object, context: object) -> None:
    raise AssertionError("there was no request")


async def test_a_call_that_grpc_has_ended_is_no_error_of_ours() -> None:
    """Or whoever sends messages that are too large fills the log with tracebacks."""
    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await end(unreachable)
    assert logs == []


async def test_a_write_to_such_a_call_is_none_either(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(self: EndedCall) -> bytes:
        return b""

    async def write(request: object, context: object) -> None:
        raise grpc.aio.InternalError("Failed to execute batch")

    monkeypatch.setattr(EndedCall, "read", read)
    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await end(write)
    assert logs == []
