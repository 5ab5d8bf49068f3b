"""The terminal of a command: the text that it prints and the signals that stop it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncGenerator, Callable, Generator
from types import FrameType

import typer

from zerofleet.printable import printable, printable_lines

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text that may come from another process or from a database.

    Args:
        text: printed without control characters.
        err: print to standard error.
        nl: end with a line break.
    """
    typer.echo(printable_lines(text), err=err, nl=nl)


def replace_line(text: str) -> None:
    """Replace the last line of standard error, which must be a terminal; empty: remove it."""
    typer.echo(f"\r\x1b[K{printable(text)}", err=True, nl=False)


@contextlib.contextmanager
def interruptible() -> Generator[None]:
    """Raise KeyboardInterrupt for the stop signals, while no event loop runs."""
    before = {each: signal.signal(each, _interrupt) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextlib.asynccontextmanager
async def stop_event(
    first: Callable[[], None], again: Callable[[], None]
) -> AsyncGenerator[asyncio.Event]:
    """Yield an event that the first signal sets; it calls ``first``, each further one ``again``.

    After the block the signals are ignored, because the command is about to end.
    """
    stop = asyncio.Event()

    def on_signal() -> None:
        callback = again if stop.is_set() else first
        stop.set()
        callback()

    loop = asyncio.get_running_loop()
    for each in _SIGNALS:
        loop.add_signal_handler(each, on_signal)
    try:
        yield stop
    finally:
        for each in _SIGNALS:
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_IGN)


@contextlib.contextmanager
def interrupts_ignored() -> Generator[None]:
    """Ignore Ctrl-C while another program has the terminal, so that only that program gets it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
