"""The output folder of a comparison: every finished training with its model, and the results.

A file is written under a temporary name and renamed, so a folder never holds half of a training.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import re
from collections.abc import Generator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Self

from zerofleet.comparison.compared_runs import Comparison, difference_of
from zerofleet.errors import ConfigError

RESULTS = "results.json"
PAGE = "comparison.html"
_IDENTITY = "comparison.json"
_LOCK = "lock"


@dataclass(slots=True)
class ExamAnswers:
    """The answers of a model in one part of the exam: one kind of positions, one search size."""

    error_rate: float
    """Share of positions with a mistake; in a small game, of lines of play that are lost."""
    value_error: float | None = None
    """Mean squared error of the value after the search."""
    wrong: str = ""
    """``1`` for a mistake and ``0`` for none, ``[positions]``; empty if all lines are played."""


@dataclass(slots=True, kw_only=True)
class FinishedTraining:
    """A finished training of one run with one seed."""

    run: str
    seed: int
    precision: str
    """Precision of the last model."""
    models: int
    games: int
    positions: int
    """Positions that self-play added to the window."""
    steps: int
    samples: int
    evaluations: int
    """Positions that the network evaluated in self-play."""
    cpu: dict[str, float]
    """CPU-seconds by part: ``play``, ``train``, ``export``."""
    rows: list[dict[str, Any]]
    """Figures of each published model, in order: costs, losses and games; some have an exam."""
    exam: dict[str, ExamAnswers]
    """Answers of the last model by question, such as ``random@100``."""
    played: dict[str, Any] = field(default_factory=dict[str, Any])
    """Results of whole games by opponent and number of games, such as ``GNU Go 20``.

    The key of a match, and of games with a player of your own, ends with the opponent's digest.
    """

    @property
    def cpu_seconds(self) -> float:
        """CPU-seconds of all parts."""
        return sum(self.cpu.values())

    @classmethod
    def read(cls, values: dict[str, Any]) -> Self:
        """Rebuild a training from JSON."""
        exam = {question: ExamAnswers(**each) for question, each in values.pop("exam").items()}
        return cls(**values, exam=exam)


class ComparisonFolder:
    """The folder, for one comparison at a time; ``with`` locks it.

    Args:
        comparison: what is compared. A folder of another comparison is refused.
    """

    def __init__(self, comparison: Comparison) -> None:
        self.path = comparison.output
        self._comparison = comparison
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        with self._writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            is_new = not (self.path / _IDENTITY).exists()
            if is_new and any(self.path.iterdir()) and not (self.path / _LOCK).exists():
                raise ConfigError(
                    f"{self.path} holds other files: give --output a new folder, or an empty one"
                )
            self._lock = (self.path / _LOCK).open("w")
        with contextlib.ExitStack() as refused:
            refused.callback(self._lock.close)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise ConfigError(
                    f"{self.path} is in use by another `zerofleet compare`: wait for it, or give "
                    "another --output"
                ) from error
            self._claim()
            refused.pop_all()
        return self

    def _claim(self) -> None:
        """Check that the locked folder is this comparison's, or make it so."""
        with self._writing(self.path):
            known = self._read(_IDENTITY)
        identity = self._comparison.identity()
        if known is not None and (difference := difference_of(known, identity)):
            raise ConfigError(
                f"{self.path} holds another comparison ({difference}): give another --output, or "
                "delete the folder"
            )
        self._write(_IDENTITY, identity)

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()

    @property
    def lock_fds(self) -> tuple[int, ...]:
        """File descriptors of the lock, for processes that share the folder."""
        return () if self._lock is None else (self._lock.fileno(),)

    def training(self, run: str, seed: int) -> FinishedTraining | None:
        """Return a finished training; None if it is not finished.

        Raises:
            ConfigError: its file is damaged.
        """
        name = f"{self._name(run, seed)}.json"
        values = self._read(name)
        try:
            return None if values is None else FinishedTraining.read(values)
        except (TypeError, KeyError) as error:
            raise self._damaged(name) from error

    def keep(self, training: FinishedTraining, model: bytes | None = None) -> None:
        """Write a training, and its last model if it is given."""
        name = self._name(training.run, training.seed)
        if model is not None:
            self._replace(f"{name}.onnx", model)
        self._write(f"{name}.json", asdict(training))

    def model(self, training: FinishedTraining) -> bytes:
        """Return the last model of a training.

        Raises:
            ConfigError: the file cannot be read.
        """
        path = self.path / f"{self._name(training.run, training.seed)}.onnx"
        try:
            return path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"cannot read {path}: {error.strerror}; delete {path.with_suffix('.json')} to "
                "repeat this training"
            ) from error

    def keep_results(self, results: dict[str, Any], page: str) -> None:
        """Write the results as JSON and as an HTML page."""
        self._write(RESULTS, results)
        self._replace(PAGE, page.encode())

    def _name(self, run: str, seed: int) -> str:
        number = list(self._comparison.runs).index(run) + 1
        words = re.sub(r"[^\w.=+-]+", "_", run)[:60]
        return f"{number}-{words}-seed-{seed}"

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise self._damaged(name) from error

    def _damaged(self, name: str) -> ConfigError:
        return ConfigError(f"{self.path / name} is damaged: delete it, and repeat the command")

    def _write(self, name: str, values: dict[str, Any]) -> None:
        self._replace(name, json.dumps(values).encode())

    def _replace(self, name: str, content: bytes) -> None:
        path = self.path / name
        temporary = self.path / f".{name}.tmp"
        with self._writing(path):
            temporary.write_bytes(content)
            temporary.replace(path)

    @contextlib.contextmanager
    def _writing(self, path: Path) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise ConfigError(
                f"cannot write {path}: {error.strerror}; give --output a folder that you may "
                "write to"
            ) from error
