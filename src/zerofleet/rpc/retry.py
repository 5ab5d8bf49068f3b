"""Retrying of unary calls: the one place where it is done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc
import grpc.aio

from zerofleet.errors import AccessDeniedError, InferenceUnavailableError, ZerofleetError
from zerofleet.rpc import status
from zerofleet.rpc.channel import back_off

_Response = TypeVar("_Response")


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
    failures = 0
    failure: ZerofleetError | None = None
    while True:
        try:
            return await call(max(0.001, deadline - time.monotonic()))
        except grpc.aio.AioRpcError as error:
            # That the time is over says less than why the try before failed.
            if failure is None or error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                failure = rpc_error(address, error)
            pause = back_off(failures)
            again = error.code() is grpc.StatusCode.UNAVAILABLE
            if not again or time.monotonic() + pause >= deadline:
                raise failure from error
        failures += 1
        await asyncio.sleep(pause)


def rpc_error(address: str, error: grpc.aio.AioRpcError) -> ZerofleetError:
    """The error that a failed call is to its caller."""
    found = status.error_of(error.code(), error.details() or "")
    if isinstance(found, (InferenceUnavailableError, AccessDeniedError)):
        return type(found)(f"inference at {address}: {found}")
    return found
