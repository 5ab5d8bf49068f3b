"""Processes that a benchmark starts and talks to by lines: the server, and workers that store."""

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
    """A process of the benchmark ended before its time; what it said is on standard error."""


class Child:
    """A module of ours as a process: a line goes in, a line of JSON comes out.

    It ends with ``with``; and when its standard input closes, which happens when we are killed.
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
        """For its CPU time."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        # It has nothing to lose, and a gRPC server that takes its leave makes its clients log that.
        self._process.kill()
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(timeout=60)

    def hear(self) -> dict[str, float]:
        """The next line that it says; blocks.

        Raises:
            ChildGoneError: it has ended.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ChildGoneError(f"{self._module} ended with status {self._process.wait()}")
        return json.loads(line)

    def ask(self, line: str = "") -> dict[str, float]:
        """Say a line and hear the answer; blocks."""
        self.say(line)
        return self.hear()

    def say(self, line: str) -> None:
        """Say a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()


def ask_all(children: Sequence[Child], line: str) -> dict[str, float]:
    """Say a line to all at once; the sums of their answers. Blocks."""
    for child in children:
        child.say(line)
    answers = [child.hear() for child in children]
    return {name: sum(answer[name] for answer in answers) for name in answers[0]}


@contextlib.contextmanager
def serving(
    game: str, file: Path | None, sessions: int = 1, provider: str = "cpu"
) -> Generator[tuple[Child, str]]:
    """A server of one model file, or of a network that costs nothing; with its address."""
    name = "-" if file is None else str(file)
    with Child("bench.serve_file", game, name, str(sessions), provider) as server:
        yield server, f"127.0.0.1:{server.hear()['port']:.0f}"
