"""Services for tests, as processes that start at once: forks of a process with all imports.

A service that is started alone imports for one to four seconds of CPU; a fork starts in about 20
ms. It is a process like any other, with a command line, an environment, a log, signals and an exit
status.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

_context = multiprocessing.get_context("forkserver")
_PRELOADED = [
    "zerofleet.services.autoscaler.service",
    "zerofleet.services.evaluator.service",
    "zerofleet.services.inference.service",
    "zerofleet.services.selfplay.service",
    "zerofleet.services.trainer.service",
]
_context.set_forkserver_preload(_PRELOADED)


def preload(module: str) -> None:
    """Import one more module in the server, which most tests do not use.

    Args:
        module: name of the module; call this before the first fork.
    """
    _PRELOADED.append(module)
    _context.set_forkserver_preload(_PRELOADED)


class Fork:
    """A process ``python -m PROGRAM ARGUMENT...`` in its own session; it ends with this process.

    The methods are the same as in ``subprocess.Popen``, but the output goes to a log.

    Args:
        program: a module, or the path of a script; run as ``__main__``.
        arguments: the command line's arguments.
        environment: added to our own, without our variables for a fleet or a bucket.
        log: standard output and error are appended here.
    """

    def __init__(
        self,
        program: str | Path,
        arguments: Sequence[str | Path],
        environment: Mapping[str, str],
        log: Path,
    ) -> None:
        command = [str(program), *map(str, arguments)]
        ours = {k: v for k, v in os.environ.items() if not k.startswith(("ZEROFLEET_", "AWS_"))}
        whole = {**ours, **environment}
        self._log = log
        self._log_begins = log.stat().st_size if log.exists() else 0
        self._process = _context.Process(target=_become, args=(command, whole, log), daemon=True)
        log.touch()
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Return the exit status, negative for the signal that ended it; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status, once the process has ended.

        Raises:
            subprocess.TimeoutExpired: the process has not ended in time.
        """
        self._process.join(timeout)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return status

    def output(self) -> str:
        """Return the process's output so far."""
        with self._log.open("rb") as file:
            file.seek(self._log_begins)
            return file.read().decode()

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


def _become(command: list[str], environment: dict[str, str], log: Path) -> None:
    os.setsid()
    threading.Thread(target=_die_with_parent, daemon=True).start()
    with log.open("ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[:] = command
    if command[0].endswith(".py"):
        runpy.run_path(command[0], run_name="__main__")
    else:
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGKILL)
