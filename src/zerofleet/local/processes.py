"""Child processes that cannot outlive us, and ports for the servers of this machine."""

from __future__ import annotations

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LOOPBACK = "127.0.0.1"
# Below the range from which the kernel assigns ports to outgoing connections. A server binds its
# port seconds after it was chosen, and again after a restart, and no connection may take it in
# between.
_PORTS = range(20_000, 32_000)
PAGE_PORTS = range(8080, 8180)
"""Ports for the dashboard of a run, in the order of trying."""
_untried = itertools.cycle(random.sample(_PORTS, len(_PORTS)))

PROCESS_LOG_BYTES = 10 << 20
"""Size above which a log is moved to ``NAME.1``, in bytes."""
_LAUNCH = Path(__file__).parents[1] / "launch.py"


def free_port() -> int:
    """Return a free TCP port of 127.0.0.1 that no other caller was given.

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
    """Return an open file of this user; locking a byte of it claims the port of that number.

    The kernel releases the locks when the process is gone, however it ended.
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
        """Return the user of this process."""
        return cls(os.geteuid(), os.getegid())

    @classmethod
    def named(cls, name: str) -> Account:
        """Return a user of the password file; ``KeyError`` if there is none of that name."""
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
    """Start a program in its own session; when this process dies, the kernel ends it (Linux).

    A Ctrl-C at the terminal does not reach it: the caller stops it. The kernel treats the death of
    the *thread* that called this as our death, so call it from one that lives as long as the child.

    Args:
        arguments: the program and its arguments.
        environment: added to our own environment.
        log: file to which standard output and error are appended; None: they stay ours. A log that
            is too large is moved to ``NAME.1`` first.
        account: run it as this user (needs root).
        death_signal: signal that it gets when we die; SIGKILL cannot be ignored.
        keep_open: files of ours that it inherits.
        data_bytes: limit of data memory for it and for each process that it starts.
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

    The program keeps the file open, so the log is copied and then emptied. A line written between
    the two is lost. On a full disk the log stays as it is.

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
    """Ask a child to stop, and kill its whole session if it does not in time.

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
