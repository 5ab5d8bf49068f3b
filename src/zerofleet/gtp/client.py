"""A program that plays over the Go Text Protocol, version 2, on its standard streams."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from typing import Self

from zerofleet.errors import ZerofleetError
from zerofleet.gtp.protocol import GtpError

_LEAVE_SECONDS = 2.0


class EngineGoneError(ZerofleetError):
    """The program cannot be started, has ended, or does not answer in time."""


class GtpClient:
    """One running engine; an asynchronous context manager that ends it.

    Args:
        command: the program and its arguments.
        timeout: seconds to wait for an answer.
    """

    def __init__(self, command: Sequence[str], *, timeout: float = 120.0) -> None:
        self._command = tuple(command)
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
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                # A Ctrl-C at the terminal is only for us, and the engine's group ends with it.
                start_new_session=True,
            )
        except OSError as error:
            raise EngineGoneError(f"cannot start {self._command[0]}: {error.strerror}") from error

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

    async def send(self, command: str) -> str:
        """Send one command; return its answer without the "=", lines joined.

        Raises:
            GtpError: the engine refuses; the message is its own.
            EngineGoneError: it has ended, does not answer in time, or writes an endless line.
        """
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise EngineGoneError(f"{self._command[0]} is not running")
        try:
            async with asyncio.timeout(self._timeout):
                self._owes_answer = True
                process.stdin.write(f"{command}\n".encode())
                await process.stdin.drain()
                answer = await _answer(process.stdout)
                self._owes_answer = False
        except TimeoutError:
            raise EngineGoneError(
                f"{self._command[0]} has not answered '{command}' in {self._timeout:g} s"
            ) from None
        except asyncio.LimitOverrunError as error:
            raise EngineGoneError(
                f"{self._command[0]} answers '{command}' with an endless line"
            ) from error
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            raise EngineGoneError(f"{self._command[0]} ended at '{command}'") from error
        mark, text = answer[0], answer[1:].lstrip("0123456789").strip()
        if mark == "?":
            raise GtpError(text or f"refused: {command}")
        return text


async def _leave(process: Process) -> None:
    """Ask a program to end, and wait a little."""
    with contextlib.suppress(OSError, TimeoutError):
        if process.stdin is not None:
            process.stdin.write(b"quit\n")
            process.stdin.close()
        async with asyncio.timeout(_LEAVE_SECONDS):
            await process.communicate()


async def _answer(stream: asyncio.StreamReader) -> str:
    """Read up to the empty line that ends an answer; drop everything before "=" or "?"."""
    lines: list[str] = []
    while True:
        line = (await stream.readuntil()).decode(errors="replace").rstrip("\r\n")
        if lines and not line.strip():
            return "\n".join(lines)
        if lines or line.startswith(("=", "?")):
            lines.append(line)
