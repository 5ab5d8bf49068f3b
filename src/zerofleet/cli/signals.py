"""Ctrl-C, SIGTERM and SIGHUP: one wish to end, however it is said."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncGenerator, Callable, Generator
from types import FrameType

_WISHES = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def interruptible() -> Generator[None]:
    """While nothing asynchronous runs: every wish to end is a KeyboardInterrupt."""
    before = {wish: signal.signal(wish, _interrupt) for wish in _WISHES}
    try:
        yield
    finally:
        for wish, handler in before.items():
            signal.signal(wish, handler)


@contextlib.asynccontextmanager
async def stop_event(
    first: Callable[[], None], again: Callable[[], None]
) -> AsyncGenerator[asyncio.Event]:
    """An event that the first wish sets; the callbacks hear of the first and of the others.

    Afterwards wishes are ignored: what is left to do is to leave, and it takes no time.
    """
    stop = asyncio.Event()

    def hear() -> None:
        callback = again if stop.is_set() else first
        stop.set()
        callback()

    loop = asyncio.get_running_loop()
    for wish in _WISHES:
        loop.add_signal_handler(wish, hear)
    try:
        yield stop
    finally:
        for wish in _WISHES:
            loop.remove_signal_handler(wish)
            signal.signal(wish, signal.SIG_IGN)


@contextlib.contextmanager
def interrupts_ignored() -> Generator[None]:
    """While a program of its own mind has the terminal: Ctrl-C is for it alone."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
