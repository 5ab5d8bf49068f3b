"""Child processes of a benchmark, which read commands and answer in lines: servers and workers."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Self

from zerofleet.errors import ZerofleetError


class ChildGoneError(ZerofleetError):
    """A child process of the benchmark ended too early. Standard error has its messages."""


class Child:
    """A module that runs as a process: it reads lines and answers each with a line of JSON.

    Use it in ``with``, which kills the process at the end. The modules also exit when their
    standard input closes, as it does if the benchmark is killed.

    Args:
        module: full name of the module.
        arguments: its command line.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        self._module = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        """Process id, for example to read its CPU time."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        # The process has nothing to save. If a gRPC server shut down cleanly, clients would log it.
        self._process.kill()
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(timeout=60)

    def receive(self) -> dict[str, float]:
        """Wait for the next line of the process, and return its JSON object.

        Raises:
            ChildGoneError: the process has ended.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ChildGoneError(f"{self._module} ended with status {self._process.wait()}")
        return json.loads(line)

    def ask(self, line: str = "") -> dict[str, float]:
        """Send a line, wait for the answer, and return it.

        Raises:
            ChildGoneError: the process has ended.
        """
        self.send(line)
        return self.receive()

    def send(self, line: str) -> None:
        """Send a line to the process; ``line`` has no newline."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()


def ask_all(children: Sequence[Child], line: str) -> dict[str, float]:
    """Send a line to all children, wait for all answers, and return their sums by field.

    Raises:
        ChildGoneError: a process has ended.
    """
    for child in children:
        child.send(line)
    answers = [child.receive() for child in children]
    return {name: sum(answer[name] for answer in answers) for name in answers[0]}


@contextlib.contextmanager
def serving(
    game: str, file: Path | None, sessions: int = 1, provider: str = "cpu"
) -> Generator[tuple[Child, str]]:
    """Run an inference server for one model (``bench.serve_file``).

    Args:
        game: name of the game.
        file: model file; None for a network that does nothing.
        sessions: number of model threads.
        provider: name of the execution provider, from ``bench.providers``.

    Yields:
        The server's process and its address as ``host:port``.
    """
    name = "-" if file is None else str(file)
    with Child("bench.serve_file", game, name, str(sessions), provider) as server:
        yield server, f"127.0.0.1:{server.receive()['port']:.0f}"
