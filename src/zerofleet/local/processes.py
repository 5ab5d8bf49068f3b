"""Child processes of this machine: their ports, their launch, and a supervisor that restarts them.

A child cannot outlive us: if this process is killed, the kernel ends it. Children live in sessions
of their own, so a Ctrl-C at the terminal reaches the supervisor alone, which stops them in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import functools
import itertools
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from subprocess import Popen
from typing import Self

from zerofleet.errors import ConfigError, ZerofleetError
from zerofleet.service import LOST_GAMES_FD

LOOPBACK = "127.0.0.1"
# Below the range out of which the kernel serves outgoing connections: a server binds its port
# seconds after it was chosen, and again after a restart, and no connection may take it meanwhile.
_PORTS = range(20_000, 32_000)
PAGE_PORTS = range(8080, 8180)
"""Ports for the page of a run, in the order in which they are tried."""
_untried = itertools.cycle(random.sample(_PORTS, len(_PORTS)))

PROCESS_LOG_BYTES = 10 << 20
"""A log that is larger than this is moved to ``NAME.1``."""
_LAUNCH = Path(__file__).with_name("launch.py")

_QUICK_DEATH_SECONDS = 10.0
_FIRST_PAUSE_SECONDS = 0.5
_MOST_QUICK_DEATHS = 5
_LOG_SECONDS = 1.0  # between two looks at the sizes of logs
_CANNOT_LISTEN = ("cannot listen on ", "cannot serve metrics on ")


def free_port() -> int:
    """A TCP port of 127.0.0.1 that is free and that was given to no one else.

    Raises:
        OSError: every port of the range is taken, or there is no folder for temporary files.
    """
    for port in itertools.islice(_untried, len(_PORTS)):
        with contextlib.suppress(OSError):
            take_port(port)
            return port
    raise OSError(f"no free port from {_PORTS.start} to {_PORTS.stop - 1} on {LOOPBACK}")


def take_port(port: int) -> None:
    """Claim a TCP port of 127.0.0.1 until this process ends.

    Other processes of this user cannot claim it, even before the server binds it or while the
    server restarts.

    Raises:
        OSError, OverflowError: the port is in use, claimed, not allowed, or not a port.
    """
    try:
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except BlockingIOError as error:
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE)) from error
    with socket.socket() as probe:
        # As servers do: a port whose last connections are still closing counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((LOOPBACK, port))


def answers(address: str) -> bool:
    """Return whether a server accepts connections at ``HOST:PORT``."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


@functools.cache
def _claims() -> int:
    """An empty file of this user, open until the process ends: to claim a port is to lock its byte.

    The kernel gives the locks back when the process is gone, however it ended.
    """
    path = Path(tempfile.gettempdir()) / f"zerofleet-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this machine, by number."""

    uid: int
    gid: int

    @classmethod
    def current(cls) -> Account:
        """Who we are."""
        return cls(os.geteuid(), os.getegid())

    @classmethod
    def named(cls, name: str) -> Account:
        """A user of the password file; ``KeyError`` when there is none of that name."""
        entry = pwd.getpwnam(name)
        return cls(entry.pw_uid, entry.pw_gid)


def start_child(
    arguments: Sequence[str | Path],
    environment: Mapping[str, str] | None = None,
    log: Path | None = None,
    *,
    account: Account | None = None,
    death_signal: signal.Signals = signal.SIGKILL,
    keep_open: Sequence[int] = (),
    data_bytes: int | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own; when this process dies, the kernel ends it (Linux).

    A Ctrl-C at the terminal does not reach it: stopping it, and in which order, is the caller's.
    The kernel takes the death of the *thread* that called this for our death, so call it from one
    that lives as long as the child.

    Args:
        arguments: the program and its arguments.
        environment: added to our own environment.
        log: standard output and error are appended here; None: they stay ours. One that is too
            large is moved to ``NAME.1`` first.
        account: run it as this user (needs root).
        death_signal: what it gets when we die; SIGKILL cannot be ignored.
        keep_open: files of ours that it inherits.
        data_bytes: memory of its own that it, and each process that it starts, may have at most.
    """
    account_argument = f"{account.uid}:{account.gid}" if account else "-"
    launch = (sys.executable, "-I", "-S", str(_LAUNCH))
    limit = "-" if data_bytes is None else str(data_bytes)
    how = (str(os.getpid()), str(int(death_signal)), account_argument, limit)
    with contextlib.ExitStack() as stack:
        if log:
            limit_log(log)
            log.touch(0o600)
        output = stack.enter_context(log.open("ab")) if log else None
        return subprocess.Popen(
            [*launch, *how, *map(str, arguments)],
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            start_new_session=True,
            pass_fds=tuple(keep_open),
        )


def limit_log(log: Path, most: int = PROCESS_LOG_BYTES) -> None:
    """Move the newest part of a log that is too large to ``NAME.1``, over the one before.

    The program keeps the file open, so the log is copied and then emptied. A line that is written
    between the two is lost. On a full disk the log stays as it is.

    Args:
        log: opened by its program for appending.
        most: bytes of each of the two files.
    """
    with contextlib.suppress(OSError), log.open("r+b", buffering=0) as current:
        if os.fstat(current.fileno()).st_size <= most:
            return
        fcntl.flock(current, fcntl.LOCK_EX | fcntl.LOCK_NB)  # another command may do the same
        size = os.fstat(current.fileno()).st_size
        if size <= most:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with open(os.open(log.with_name(f"{log.name}.1"), flags, 0o600), "wb", buffering=0) as old:
            current.seek(size - most)
            shutil.copyfileobj(current, old)
        current.truncate(0)


def stop_child(
    process: subprocess.Popen[bytes],
    stop_signal: signal.Signals = signal.SIGTERM,
    patience: float = 10.0,
) -> int:
    """Ask a child to leave, and kill its whole session if it has not in time.

    Returns:
        Its exit status, negative for the signal that ended it.
    """
    if process.poll() is None:
        process.send_signal(stop_signal)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


class ProgramFailedError(ZerofleetError):
    """A program dies again and again; its log says why."""

    exit_code = 1


class AddressTakenError(ConfigError):
    """A program cannot listen where it was told to: another may have been faster."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to run as a child process."""

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    stop_seconds: float = 10.0
    """How long it may take to leave after SIGTERM."""
    optional: bool = False
    """Whether the others go on without it when it cannot be kept running."""

    def last_log_lines(self, count: int) -> list[str]:
        """The end of its log, which says why it died."""
        end = b""
        for path in (self.log.with_name(f"{self.log.name}.1"), self.log):
            with contextlib.suppress(OSError), path.open("rb") as log:
                log.seek(max(0, path.stat().st_size - 16_384))
                end += log.read()
        return end.decode(errors="replace").splitlines()[-count:]

    def last_words(self) -> str:
        """The last line of its log, or where that would be; a list of mistakes as a whole."""
        lines = self.last_log_lines(40) or [f"see {self.log}"]
        first = len(lines) - 1
        while first > 0 and lines[first].startswith("  "):
            first -= 1
        is_list = lines[first].endswith(" mistakes:")
        return "\n".join(lines[first:]) if is_list else lines[-1]


@dataclass(slots=True)
class Child:
    """A program's process, now and before."""

    program: Program
    process: Popen[bytes] | None = None
    restarts: int = 0
    quick_deaths: int = 0
    note: str = ""
    """What a person should know: why it is not running now."""
    stopping: bool = False
    ended: asyncio.Future[int] | None = None
    """The exit status of ``process``, when there is one."""
    lost_games: int = 0
    """Finished games that it held when it left, because Postgres did not take them."""
    has_told: bool = False
    """Whether ``process`` said how many finished games were lost."""
    killed: bool = False
    """Whether it did not stop in time."""


class Supervisor:
    """Keeps programs running until it is left; stops them in the reverse order of their start.

    Programs of one service stop at once: a worker may wait for its predictions, and there may be
    dozens.

    Args:
        programs: in the order of starting.
        say: called with each line that a person should read.
        ended: called with the PID of each process that ended by itself.
        logs: of other programs, whose sizes it limits as those of its own.

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
        """Wait until a program cannot be kept running that is not optional.

        Raises:
            ProgramFailedError: it died five times in quick succession; the end of its log is in it.
            AddressTakenError: it cannot listen where it was told to, be it optional or not.
            ConfigError: it says that a person must mend its input.
        """
        done, _ = await asyncio.wait(self._keepers, return_when=asyncio.FIRST_EXCEPTION)
        for keeper in done:
            keeper.result()

    def hurry(self) -> None:
        """Stop waiting for children that are leaving: kill them."""
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
            process, told = _start(program)
            child.process, child.note = process, ""
            child.ended = loop.run_in_executor(self._waiters, _wait, child, process, told)
            status = await asyncio.shield(child.ended)
            if child.stopping:
                return
            child.process = None
            self._ended(process.pid)
            _kill_session(process)  # what a dead program left behind
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


def service_of(name: str) -> str:
    """The service that a program of this name is one of: ``selfplay`` of ``selfplay-3``."""
    return name.partition("-")[0]


def _start(program: Program) -> tuple[Popen[bytes], int]:
    """Its process, and a pipe where it may say how many games it lost: a full disk takes no log."""
    told, tells = os.pipe()
    environment = {**program.environment, LOST_GAMES_FD: str(tells)}
    try:
        return start_child(program.arguments, environment, program.log, keep_open=[tells]), told
    except BaseException:
        os.close(told)
        raise
    finally:
        os.close(tells)


def _wait(child: Child, process: Popen[bytes], told: int) -> int:
    """Wait for its end and return its exit status; note what it said of lost games before."""
    status = process.wait()
    os.set_blocking(told, False)  # what it left behind may hold the pipe
    with open(told, "rb", buffering=0) as pipe:
        number = pipe.read(20) or b""
    child.has_told = number.isdigit()
    child.lost_games += int(number) if child.has_told else 0
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
        os.killpg(process.pid, signal.SIGKILL)  # a child leads a session and group of its own


def describe(status: int) -> str:
    """How a process ended, in words."""
    if status >= 0:
        return f"ended with exit status {status}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-status).name}"
    return f"was ended by signal {-status}"
