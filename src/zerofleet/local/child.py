"""Child processes that cannot outlive us."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_LAUNCH = Path(__file__).with_name("launch.py")


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
        log: standard output and error are appended here; None: they stay ours.
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
