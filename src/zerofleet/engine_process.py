"""A program that plays over lines of text on its standard streams, such as a GTP or UCI engine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Self

from zerofleet.config import ENV_PREFIX
from zerofleet.errors import ZerofleetError
from zerofleet.printable import printable, shortened

_LAUNCH = Path(__file__).with_name("launch.py")
_LEAVE_SECONDS = 2.0


class EngineError(ZerofleetError):
    """A program cannot play: it refuses what the game needs, or it is gone."""


class EngineGoneError(EngineError):
    """The program cannot be started, has ended, or does not answer in time."""


class EngineProcess:
    """One running program; an asynchronous context manager that ends it.

    The program does not see our own ``ZEROFLEET_*`` variables. On Linux the kernel kills it when
    this process dies.

    Args:
        command: the program and its arguments.
        timeout: seconds to wait for an answer.
        name: name of the program in messages; None: the program, as it was given.
    """

    def __init__(
        self, command: Sequence[str], *, timeout: float = 120.0, name: str | None = None
    ) -> None:
        self._command = tuple(command)
        self.name = self._command[0] if name is None else name
        """Name of the program in messages."""
        self._timeout = timeout
        self._process: Process | None = None
        self._owes_answer = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.end()

    async def start(self) -> None:
        """Start the program.

        Raises:
            EngineGoneError: it cannot be started.
        """
        if shutil.which(self._command[0]) is None:
            raise EngineGoneError(f"cannot start {self.name}: there is no such program on PATH")
        # The kernel takes the death of the thread that starts it for our death: the event loop's.
        launch = (sys.executable, "-I", "-S", str(_LAUNCH), str(os.getpid()))
        killed = (str(int(signal.SIGKILL)), "-", "-")
        try:
            self._process = await asyncio.create_subprocess_exec(
                *launch,
                *killed,
                *self._command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                env={k: v for k, v in os.environ.items() if not k.startswith(ENV_PREFIX)},
                # A Ctrl-C at the terminal is only for us, and the engine's group ends with it.
                start_new_session=True,
            )
        except OSError as error:
            raise EngineGoneError(f"cannot start {self.name}: {error.strerror}") from error

    async def end(self) -> None:
        """End the program, if it was started.

        It gets two seconds to quit. It is killed at once if it still owes an answer.
        """
        process, self._process = self._process, None
        if process is None:
            return
        try:
            # A program that still owes an answer would read "quit" only after that.
            if not self._owes_answer:
                await _leave(process)
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    # Its whole process group: it may be a script that starts the program.
                    os.killpg(process.pid, signal.SIGKILL)
                # Its end is noticed only when all its output was read: `wait` alone may last
                # forever.
                await process.communicate()

    async def tell(self, command: str) -> None:
        """Send a line that has no answer.

        Raises:
            EngineGoneError: the program has ended, or does not read.
        """
        async with self.answer_to(command):
            pass

    @contextlib.asynccontextmanager
    async def answer_to(
        self, command: str, *, seconds: float | None = None
    ) -> AsyncGenerator[asyncio.StreamReader]:
        """Send a line; the caller reads its whole answer from the stream.

        Args:
            command: the line.
            seconds: how long to wait for the answer; None: the program's timeout.

        Raises:
            EngineGoneError: the program has ended, does not answer in time, or writes an endless
                line.
        """
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise EngineGoneError(f"{self.name} is not running")
        if seconds is None:
            seconds = self._timeout
        words = printable(shortened(command))
        try:
            async with asyncio.timeout(seconds):
                self._owes_answer = True
                process.stdin.write(f"{command}\n".encode())
                await process.stdin.drain()
                yield process.stdout
                self._owes_answer = False
        except TimeoutError:
            raise EngineGoneError(
                f"{self.name} has not answered '{words}' in {seconds:g} s"
            ) from None
        except asyncio.LimitOverrunError as error:
            raise EngineGoneError(
                f"{self.name} answers '{words}' with a line that is too long"
            ) from error
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            raise EngineGoneError(f"{self.name} ended during '{words}'") from error


async def _leave(process: Process) -> None:
    """Ask a program to end, and wait a little."""
    with contextlib.suppress(OSError, TimeoutError):
        if process.stdin is not None:
            process.stdin.write(b"quit\n")
            process.stdin.close()
        async with asyncio.timeout(_LEAVE_SECONDS):
            await process.communicate()


async def next_line(stream: asyncio.StreamReader) -> str:
    """Read a line, without its end; only inside of ``EngineProcess.answer_to``."""
    return (await stream.readuntil()).decode(errors="replace").rstrip("\r\n")
