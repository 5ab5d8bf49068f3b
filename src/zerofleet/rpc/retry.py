"""Retrying of unary calls: the one place where it is done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc
import grpc.aio

from zerofleet.errors import AccessDeniedError, InferenceUnavailableError, ZerofleetError
from zerofleet.rpc import status_codes
from zerofleet.waiting import Backoff

_Response = TypeVar("_Response")


def call_backoff() -> Backoff:
    """Between two tries of a call: a server that restarts is back within seconds."""
    return Backoff(0.05, 2.0)


async def retrying(
    address: str, seconds: float, call: Callable[[float], Awaitable[_Response]]
) -> _Response:
    """Call until something other than UNAVAILABLE comes back, or the time is over.

    Args:
        address: for messages.
        seconds: over all tries.
        call: one try, given the seconds that are left.

    Raises:
        ZerofleetError: as the table of status codes says.
    """
    deadline = time.monotonic() + seconds
    backoff = call_backoff()
    failure: ZerofleetError | None = None
    while True:
        try:
            return await call(max(0.001, deadline - time.monotonic()))
        except grpc.aio.AioRpcError as error:
            # That the time is over says less than why the try before failed.
            if failure is None or error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                failure = rpc_error(address, error)
            pause = backoff.delay()
            again = error.code() is grpc.StatusCode.UNAVAILABLE
            if not again or time.monotonic() + pause >= deadline:
                raise failure from error
        await asyncio.sleep(pause)


def rpc_error(address: str, error: grpc.aio.AioRpcError) -> ZerofleetError:
    """The error that the caller of a failed call gets."""
    found = status_codes.error_of(error.code(), error.details() or "")
    if isinstance(found, (InferenceUnavailableError, AccessDeniedError)):
        return type(found)(f"inference at {address}: {found}")
    return found
