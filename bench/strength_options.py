"""The command line of ``bench.strength``: which runs learn, for how long, and what is examined."""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bench.accelerations import VARIANTS
from bench.games_played import run_values
from bench.learning_loop import LearningLoop
from bench.report import positive
from bench.workloads import workload
from zerofleet.config import RunConfig, check_anchor, load_run, run_from_values
from zerofleet.errors import ConfigError
from zerofleet.exam.gnu_go import check_gnu_go
from zerofleet.games.chess import is_chess
from zerofleet.match.anchors import why_absent

_BETWEEN_SETTINGS = re.compile(r",(?=\s*[a-z_]+(?:\.[a-z_]+)?=)")  # not within a list


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a loop; at least one is given."""

    cpu_seconds: float | None = None
    evaluations: float | None = None
    games: float | None = None
    steps: float | None = None

    def share(self, loop: LearningLoop) -> float:
        """The share of the budget that a loop has used, by what is nearest to its end."""
        used = (
            (loop.cpu_seconds, self.cpu_seconds),
            (loop.evaluations, self.evaluations),
            (loop.engine.statistics.games_finished, self.games),
            (loop.learner.step, self.steps),
        )
        return max(amount / limit for amount, limit in used if limit is not None)


def parse(doc: str | None, argv: Sequence[str] | None) -> argparse.Namespace:
    """The options, with ``runs`` (by the name of the variant) and ``budget`` made of them.

    Raises:
        ConfigError: a run or a setting that cannot be.
    """
    found = argparse.ArgumentParser(
        prog="python -m bench.strength",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("run", metavar="GAME|RUN.toml", help="what learns")
    found.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], dest="settings")
    for name, what in (
        ("cpu-seconds", "of playing and training, for each variant and seed"),
        ("evaluations", "of positions by self-play"),
        ("games", "finished"),
        ("steps", "of SGD"),
    ):
        found.add_argument(f"--{name}", type=positive(float), help=what)
    among = found.add_mutually_exclusive_group()
    among.add_argument(
        "--compare", nargs="+", metavar="B.toml|KEY=V,KEY=V", help="variants next to the run (-)"
    )
    among.add_argument(
        "--variants",
        nargs="+",
        choices=list(VARIANTS),
        metavar="VARIANT",
        help="of the defaults' parts: run, plain, 'no PART', 'only PART'",
    )
    found.add_argument("--seed", "--seeds", type=int, nargs="+", default=[1], dest="seeds")
    found.add_argument("--precision", choices=("run", "fp32", "int8"), default="run")
    found.add_argument("--positions", type=positive(int), default=600, help="of each exam [600]")
    found.add_argument("--simulations", type=positive(int), nargs="+", default=[1, 100])
    found.add_argument(
        "--last-simulations", type=positive(int), nargs="+", help="of the last model's exam"
    )
    found.add_argument("--every", type=positive(int), default=1, help="model that is examined [1]")
    found.add_argument(
        "--perfect-play", type=positive(int), metavar="GAMES", help="of the last model"
    )
    found.add_argument(
        "--gnugo", type=positive(int), metavar="GAMES", help="of the last model, with each level"
    )
    found.add_argument(
        "--anchor",
        nargs="+",
        default=[],
        metavar="NAME",
        dest="anchors",
        help="opponents of the last model, such as 'uci:stockfish?nodes=100'",
    )
    found.add_argument(
        "--anchor-games", type=positive(int), default=20, metavar="GAMES", help="with each [20]"
    )
    found.add_argument(
        "--match", type=positive(int), metavar="GAMES", help="of a last model with the first's"
    )
    found.add_argument("--output", type=Path, help="gets every row as a line of JSON")
    options = found.parse_args(argv)
    options.budget = Budget(options.cpu_seconds, options.evaluations, options.games, options.steps)
    if options.budget == Budget():
        found.error("give a budget: --cpu-seconds, --evaluations, --games or --steps")
    options.runs = _runs(options)
    game = next(iter(options.runs.values())).game.name
    if options.perfect_play and not (game == "connect_four" or is_chess(game)):
        raise ConfigError(
            f"--perfect-play is for connect_four and chess, not for {game}: leave it out"
        )
    if options.gnugo:
        if options.gnugo % 2:
            found.error(f"--gnugo {options.gnugo}: give an even number, half for each colour")
        check_gnu_go(game)
    if options.anchor_games % 2:
        found.error(f"--anchor-games {options.anchor_games}: give an even number")
    for name in options.anchors:
        _check_anchor(name, game)
    return options


def _check_anchor(name: str, game: str) -> None:
    try:
        check_anchor(name)
    except ValueError as error:
        raise ConfigError(f"--anchor: {error}") from error
    reason = why_absent(name, game, None)
    if reason is not None:
        raise ConfigError(f"--anchor '{name}': {reason}")


def _runs(options: argparse.Namespace) -> dict[str, RunConfig]:
    """Return each variant's run; the others are compared with the first.

    The run itself is ``-``. It comes first unless ``--compare`` places it elsewhere.
    """
    base = _values(options.run)
    common = dict(map(_setting, options.settings))
    if options.variants:
        return {name: _run(base, common | VARIANTS[name]) for name in options.variants}
    runs: dict[str, RunConfig] = {}
    compared: list[str] = options.compare or []
    for name in compared if "-" in compared else ["-", *compared]:
        if name.endswith(".toml"):
            runs[name] = _run(_values(name), common)
        else:
            settings = [] if name == "-" else _BETWEEN_SETTINGS.split(name)
            runs[name] = _run(base, common | dict(map(_setting, settings)))
    if len({run.game.name for run in runs.values()}) > 1:
        games = ", ".join(f"{name} is of {run.game.name}" for name, run in runs.items())
        raise ConfigError(f"--compare: {games}: what is compared must be of one game")
    return runs


def _values(source: str) -> dict[str, Any]:
    """Return the values of a run file, or of the run file of a workload."""
    if not source.endswith(".toml"):
        try:
            return run_values(workload(source))
        except argparse.ArgumentTypeError as error:
            raise ConfigError(f"{source} is no run file (RUN.toml) and no game: {error}") from error
    path = Path(source)
    load_run(path)  # says best what is wrong with a file
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _setting(text: str) -> tuple[str, object]:
    """KEY=VALUE; a value that is no JSON is a word.

    Raises:
        ConfigError: it is not.
    """
    key, equals, value = text.strip().partition("=")
    if not equals or not key:
        raise ConfigError(f"{text!r} is no setting: give KEY=VALUE, such as search.c_puct=2")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _run(base: Mapping[str, Any], settings: Mapping[str, object]) -> RunConfig:
    values: dict[str, Any] = json.loads(json.dumps(base))
    for key, value in settings.items():
        section, _, name = key.rpartition(".")
        place = values.setdefault(section, {}) if section else values
        if not isinstance(place, dict):  # game = "..."
            place = values[section] = {"name": place}
        place[name] = value
    try:
        return run_from_values(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{where} = {first['input']!r}: {first['msg']}") from error
