"""The checked request of a comparison: its runs, how long each one learns, and the exams.

``ComparisonRequest`` has the arguments of the command; ``Comparison`` also has the run files.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from zerofleet import __version__, games
from zerofleet.comparison.learning_loop import LearningLoop, WantedPrecision
from zerofleet.config import Overrides, RunConfig, check_anchor, load_run, split_settings
from zerofleet.config.differences import UNSET, differing_keys, flat_values, run_values
from zerofleet.errors import ConfigError
from zerofleet.exam.gnu_go import check_gnu_go
from zerofleet.games.chess import is_chess
from zerofleet.match.anchors import why_absent

_FOLDER = Path("comparisons")
_LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a training; it ends at the first one that it reaches."""

    cpu_seconds: float | None = None
    evaluations: int | None = None
    games: int | None = None
    steps: int | None = None

    def share(self, loop: LearningLoop) -> float:
        """Return the share of the budget that a loop has used, by the limit that is closest."""
        used = (
            (loop.cpu_seconds, self.cpu_seconds),
            (loop.evaluations, self.evaluations),
            (loop.games, self.games),
            (loop.learner.step, self.steps),
        )
        return max(amount / limit for amount, limit in used if limit is not None)

    @property
    def words(self) -> str:
        """The limits, such as ``600 CPU-seconds``."""
        names = {"cpu_seconds": "CPU-seconds", "evaluations": "evaluations of self-play"}
        given = {name: limit for name, limit in asdict(self).items() if limit is not None}
        return " or ".join(f"{limit:,g} {names.get(name, name)}" for name, limit in given.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRequest:
    """The arguments of ``zerofleet compare``; its help describes each."""

    runs: Sequence[str]
    settings: Sequence[str] = ()
    """Changed keys of each further run; its other values are the first run file's."""
    common: Sequence[str] = ()
    cpu_seconds: float | None = None
    evaluations: int | None = None
    games: int | None = None
    steps: int | None = None
    seeds: Sequence[int] = (1, 2)
    jobs: int = 1
    precision: WantedPrecision = "run"
    positions: int = 600
    simulations: Sequence[int] = (1, 100)
    exams: int = 5
    match: int = 100
    perfect_play: int = 0
    gnugo: int = 0
    anchors: Sequence[str] = ()
    anchor_games: int = 20
    output: str | None = None
    as_json: bool = False
    parent: int | None = None
    """Process that has locked the folder and reports the results; None: this process does."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A checked request."""

    runs: dict[str, RunConfig]
    """Each run by its name in the results; the others are compared with the first."""
    budget: Budget
    request: ComparisonRequest
    output: Path

    @classmethod
    def of(cls, request: ComparisonRequest) -> Comparison:
        """Read the run files and check the request.

        Raises:
            ConfigError: one line for each mistake.
        """
        limits = Budget(request.cpu_seconds, request.evaluations, request.games, request.steps)
        runs = _runs(request)
        _check_request(request, next(iter(runs.values())).game.name)
        output = Path(request.output) if request.output else _FOLDER / _folder_name(runs)
        return cls(runs, limits, request, output)

    @property
    def first(self) -> RunConfig:
        """The first run, whose search and openings are used in all exams and matches."""
        return next(iter(self.runs.values()))

    @property
    def game(self) -> str:
        """Name of the game."""
        return self.first.game.name

    def identity(self) -> dict[str, Any]:
        """Return everything except the seed that changes a training or its exam, as JSON."""
        request = self.request
        runs = {name: run_values(run) for name, run in self.runs.items()}
        budget = {name: limit for name, limit in asdict(self.budget).items() if limit is not None}
        found = {
            "zerofleet": __version__,
            "runs": runs,
            "budget": budget,
            "precision": request.precision,
            "positions": request.positions,
            "simulations": list(request.simulations),
            "exams": request.exams,
            "code": {name: digest for run in self.runs.values() for name, digest in _code(run)},
        }
        return cast("dict[str, Any]", json.loads(json.dumps(found)))

    def differences(self) -> dict[str, dict[str, Any]]:
        """Return the keys in which the runs differ, each with its value in every run."""
        return differing_keys({name: run_values(run) for name, run in self.runs.items()})


def difference_of(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Return the first differences between two identities, in words; empty if they are equal."""
    before, now = flat_values(stored), flat_values(wanted)
    keys = [key for key in sorted({*before, *now}) if before.get(key) != now.get(key)]
    found = [
        f"{key.removeprefix('runs.')} is {_shown(before.get(key))}, not {_shown(now.get(key))}"
        for key in keys
    ]
    names = [list(cast("Mapping[str, Any]", each.get("runs", {}))) for each in (stored, wanted)]
    if names[0] != names[1]:
        found = [f"it compares {' and '.join(names[0])}, not {' and '.join(names[1])}"]
    more = f", and {len(found) - 3} more" if len(found) > 3 else ""
    return "; ".join(found[:3]) + more


def seed_words(seeds: Sequence[int]) -> str:
    """Return seeds in words, such as ``seeds 1 and 2``."""
    *others, last = map(str, seeds)
    return f"seeds {', '.join(others)} and {last}" if others else f"seed {last}"


def _shown(value: object) -> str:
    return UNSET if value is None else json.dumps(value)


def code_digest(name: str) -> str:
    """Return the digest of the module of ``python:MODULE:CLASS``; empty if it has no source."""
    try:
        found = importlib.util.find_spec(name.split(":")[1])
    except ImportError:
        return ""
    if found is None or found.origin is None:
        return ""
    return hashlib.blake2b(Path(found.origin).read_bytes(), digest_size=8).hexdigest()


def _code(run: RunConfig) -> Generator[tuple[str, str]]:
    """Yield the digest of each module of your own that a run uses: its game, its network."""
    for name in (run.game.name, run.network.name):
        if name.startswith("python:") and (digest := code_digest(name)):
            yield name.split(":")[1], digest


def _runs(request: ComparisonRequest) -> dict[str, RunConfig]:
    """Return each run by its name: the run files, then the first one with other settings."""
    mistakes: list[str] = []
    runs: dict[str, RunConfig] = {}
    names = _names(request.runs)
    sources = [(name, Path(path), "") for name, path in zip(names, request.runs, strict=True)]
    sources += [(settings, Path(request.runs[0]), settings) for settings in request.settings]
    for name, path, settings in sources:
        if name in runs:
            mistakes.append(f"{name} is named twice: name each run once")
            continue
        try:
            overrides = Overrides.read([*request.common, *split_settings(settings)])
            runs[name] = load_run(path, overrides, checked=True)
        except ConfigError as error:
            mistakes += error.mistakes
    if mistakes:
        raise ConfigError(*mistakes)
    if len({games.spec(run.game.name).name for run in runs.values()}) > 1:
        found = ", ".join(f"{name} plays {run.game.name}" for name, run in runs.items())
        raise ConfigError(f"{found}: compared runs must play the same game")
    first, *others = runs
    for name in others:
        if run_values(runs[name]) == run_values(runs[first]):
            raise ConfigError(f"{name} and {first} have the same settings: change a key of one")
    return runs


def _names(paths: Sequence[str]) -> list[str]:
    """Return the names of run files in the results: without folder and ending, if that is clear."""
    short = [Path(path).stem if path.endswith(".toml") else path for path in paths]
    if len(set(short)) == len(set(paths)):
        return short
    return [path.removesuffix(".toml") for path in paths]


def _folder_name(runs: Mapping[str, RunConfig]) -> str:
    """Return the name of the default folder, such as ``a-vs-search.c_puct=1.5``."""
    name = "-vs-".join(re.sub(r"[^\w.=+-]+", "_", each).strip("._") for each in runs)
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.blake2b(name.encode(), digest_size=4).hexdigest()
    return f"{name[:_LONGEST_NAME]}-{digest}"


def _check_request(request: ComparisonRequest, game: str) -> None:
    mistakes: list[str] = []
    repeated = sorted({seed for seed in request.seeds if request.seeds.count(seed) > 1})
    if repeated:
        again = ", ".join(map(str, repeated))
        mistakes.append(f"--seeds names {again} twice: name each seed once")
    if any(not 0 <= seed < 2**63 for seed in request.seeds):
        mistakes.append("--seeds: give whole numbers from 0")
    if request.perfect_play and not (game == "connect_four" or is_chess(game)):
        mistakes.append(
            "--perfect-play needs a solver, and only connect_four and chess have one: leave it out "
            f"for {game}"
        )
    for option, number in (
        ("--match", request.match),
        ("--gnugo", request.gnugo),
        ("--anchor-games", request.anchor_games),
    ):
        if number % 2:
            mistakes.append(
                f"{option} {number}: each opening is played with both colours, so give an even "
                f"number, such as {number + 1}"
            )
    if request.gnugo:
        try:
            check_gnu_go(game)
        except ConfigError as error:
            mistakes.append(f"--gnugo {request.gnugo}: {error}")
    for name in request.anchors:
        try:
            check_anchor(name)
            reason = why_absent(name, game, None)
        except ValueError as error:
            mistakes.append(f"--anchor: {error}")
        else:
            if reason is not None:
                mistakes.append(f"--anchor '{name}': {reason}")
    if mistakes:
        raise ConfigError(*mistakes)
