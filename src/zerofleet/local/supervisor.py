"""Run the services as child processes: start them, restart them, stop them in order.

Children run in their own sessions: a Ctrl-C at the terminal reaches only the supervisor, which
stops them in its own order. If the supervisor is killed, the kernel ends them all.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from subprocess import Popen
from typing import Self, cast

from zerofleet.errors import ConfigError, ZerofleetError
from zerofleet.local.processes import limit_log, start_child
from zerofleet.service import LOST_GAMES_FD

_QUICK_DEATH_SECONDS = 10.0
_FIRST_PAUSE_SECONDS = 0.5
_MOST_QUICK_DEATHS = 5
_LOG_SECONDS = 1.0  # between two checks of the sizes of logs
_CANNOT_LISTEN = ("cannot listen on ", "cannot serve metrics on ")


class ProgramFailedError(ZerofleetError):
    """A program dies repeatedly; its log says why."""

    exit_code = 1


class AddressTakenError(ConfigError):
    """A program cannot listen at its address, for example because another took it first."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run as a child process."""

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    stop_seconds: float = 10.0
    """How long it may take to exit after SIGTERM."""
    optional: bool = False
    """Whether the others continue without it if it cannot be kept running."""

    def last_log_lines(self, count: int) -> list[str]:
        """Return the end of its log, which says why it died."""
        end = b""
        for path in (self.log.with_name(f"{self.log.name}.1"), self.log):
            with contextlib.suppress(OSError), path.open("rb") as log:
                log.seek(max(0, path.stat().st_size - 16_384))
                end += log.read()
        return end.decode(errors="replace").splitlines()[-count:]

    def last_words(self) -> str:
        """Return the last line of its log, or the log's path; a list of mistakes as a whole.

        Of a line in JSON, return its reason.
        """
        lines = self.last_log_lines(40) or [f"see {self.log}"]
        first = len(lines) - 1
        while first > 0 and lines[first].startswith("  "):
            first -= 1
        is_list = lines[first].endswith(" mistakes:")
        return "\n".join(lines[first:]) if is_list else _reason(lines[-1])


def _reason(line: str) -> str:
    """Return the reason that a JSON line of a log gives; the line if it gives none."""
    with contextlib.suppress(ValueError):
        entry: object = json.loads(line)
        if isinstance(entry, dict):
            return str(cast("dict[str, object]", entry).get("reason", line))
    return line


@dataclass(slots=True)
class Child:
    """A program's current process, and its history."""

    program: Program
    process: Popen[bytes] | None = None
    restarts: int = 0
    quick_deaths: int = 0
    note: str = ""
    """Why it is not running now, for a person."""
    stopping: bool = False
    ended: asyncio.Future[int] | None = None
    """The exit status of ``process``, if there is one."""
    lost_games: int = 0
    """Finished games that it held when it exited, because Postgres did not take them."""
    has_reported: bool = False
    """Whether ``process`` reported the number of finished games lost."""
    killed: bool = False
    """Whether it did not stop in time."""


class Supervisor:
    """Keeps programs running until the block ends; stops them in the reverse order of their start.

    Programs of one service stop at the same time: a worker may wait for its predictions, and there
    may be dozens.

    Args:
        programs: in the order of starting.
        say: called with each line for a person.
        ended: called with the PID of each process that ended by itself.
        logs: logs of other programs, whose sizes are limited too.

    Use as ``async with`` in the main thread; ``failed`` ends when a program cannot be kept running.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        say: Callable[[str], None],
        ended: Callable[[int], None] = lambda pid: None,
        logs: Sequence[Path] = (),
    ) -> None:
        self.children = [Child(program) for program in programs]
        self._say = say
        self._ended = ended
        self._hurry = asyncio.Event()
        self._keepers: list[asyncio.Task[None]] = []
        self._logs = [*(program.log for program in programs), *logs]
        self._waiters = ThreadPoolExecutor(len(programs), "waits-for-child")

    async def __aenter__(self) -> Self:
        self._keepers = [asyncio.create_task(self._keep(child)) for child in self.children]
        self._limiting = asyncio.create_task(self._limit_logs())
        return self

    async def __aexit__(self, *exception: object) -> None:
        try:
            by_service = groupby(
                reversed(self.children), lambda child: service_of(child.program.name)
            )
            for _, alike in by_service:
                await asyncio.gather(*map(self._stop, alike))
            tasks = (*self._keepers, self._limiting)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            # Whatever went wrong, no child outlives us, and no thread still waits for one.
            for child in self.children:
                if child.process is not None and child.process.poll() is None:
                    _kill_session(child.process)
            self._waiters.shutdown()

    async def failed(self) -> None:
        """Wait until a program that is not optional cannot be kept running.

        Raises:
            ProgramFailedError: it died five times in quick succession; the message has the end of
                its log.
            AddressTakenError: it cannot listen at its address, even if it is optional.
            ConfigError: it reports that a person must correct its input.
        """
        done, _ = await asyncio.wait(self._keepers, return_when=asyncio.FIRST_EXCEPTION)
        for keeper in done:
            keeper.result()

    def hurry(self) -> None:
        """Stop waiting for children that are stopping: kill them."""
        self._hurry.set()

    async def _limit_logs(self) -> None:
        while True:
            for log in self._logs:
                await asyncio.to_thread(limit_log, log)
            await asyncio.sleep(_LOG_SECONDS)

    async def _keep(self, child: Child) -> None:
        loop = asyncio.get_running_loop()
        while not child.stopping:
            started = time.monotonic()
            program = child.program
            process, reading = _start(program)
            child.process, child.note = process, ""
            child.ended = loop.run_in_executor(self._waiters, _wait, child, process, reading)
            status = await asyncio.shield(child.ended)
            if child.stopping:
                return
            child.process = None
            self._ended(process.pid)
            _kill_session(process)  # processes left behind by a dead program
            quick = time.monotonic() - started < _QUICK_DEATH_SECONDS
            child.quick_deaths = child.quick_deaths + 1 if quick else 1
            try:
                _give_up_if_hopeless(child, status)
            except ZerofleetError as error:
                if not program.optional or isinstance(error, AddressTakenError):
                    raise
                child.note = f"Stopped: {describe(status)} (log: {program.log})"
                self._say(f"{error}\nThe run continues without {program.name}.")
                return
            pause = _FIRST_PAUSE_SECONDS * 2 ** (child.quick_deaths - 1)
            child.note = f"Restarting in {pause:g} s: {describe(status)}"
            child.restarts += 1
            words = f"{describe(status)}. Restarting in {pause:g} s"
            self._say(f"{program.name} {words} (log: {program.log})")
            await asyncio.sleep(pause)

    async def _stop(self, child: Child) -> None:
        child.stopping = True
        if child.process is None or child.ended is None or child.ended.done():
            return
        name = child.program.name
        self._say(f"stopping {name}")
        child.process.terminate()
        hurried = asyncio.ensure_future(self._hurry.wait())
        await asyncio.wait(
            {child.ended, hurried},
            timeout=child.program.stop_seconds,
            return_when=asyncio.FIRST_COMPLETED,
        )
        hurried.cancel()
        if not child.ended.done():
            waited = f"it did not stop within {child.program.stop_seconds:g} s"
            self._say(f"killing {name}" if self._hurry.is_set() else f"killing {name}: {waited}")
            child.killed = True
            _kill_session(child.process)
            await child.ended
        elif (status := child.ended.result()) > 0:  # such as a checkpoint that was not written
            last = "".join(f": {line}" for line in child.program.last_log_lines(1))
            self._say(
                f"{name} {describe(status)} while it stopped{last} (log: {child.program.log})"
            )


def service_of(name: str) -> str:
    """Return the service of a program: ``selfplay`` for ``selfplay-3``."""
    return name.partition("-")[0]


def _start(program: Program) -> tuple[Popen[bytes], int]:
    """Return its process, and a pipe for the number of lost games: a full disk takes no log."""
    reading, writing = os.pipe()
    environment = {**program.environment, LOST_GAMES_FD: str(writing)}
    try:
        child = start_child(program.arguments, environment, program.log, keep_open=[writing])
    except BaseException:
        os.close(reading)
        raise
    else:
        return child, reading
    finally:
        os.close(writing)


def _wait(child: Child, process: Popen[bytes], reading: int) -> int:
    """Wait for its end, record the lost games that it reported, and return its exit status."""
    status = process.wait()
    os.set_blocking(reading, False)  # a process that it left behind may hold the pipe
    with open(reading, "rb", buffering=0) as pipe:
        number = pipe.read(20) or b""
    child.has_reported = number.isdigit()
    child.lost_games += int(number) if child.has_reported else 0
    return status


def _give_up_if_hopeless(child: Child, status: int) -> None:
    program = child.program
    if status == ConfigError.exit_code:
        reason = program.last_words()
        if reason.startswith(_CANNOT_LISTEN):
            raise AddressTakenError(f"{program.name} cannot start: {reason}")
        raise ConfigError(f"{program.name} stopped: {reason}")  # it may have run for days
    if child.quick_deaths >= _MOST_QUICK_DEATHS:
        lines = "\n".join(f"    {line}" for line in program.last_log_lines(12))
        raise ProgramFailedError(
            f"{program.name} died {child.quick_deaths} times in a row, the last time it "
            f"{describe(status)}. The end of {program.log}:\n{lines}"
        )


def _kill_session(process: Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # a child leads its own session and group


def describe(status: int) -> str:
    """Describe how a process ended."""
    if status >= 0:
        return f"ended with exit status {status}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-status).name}"
    return f"was ended by signal {-status}"
