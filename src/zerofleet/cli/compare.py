"""``zerofleet compare``: train run files for the same CPU time and measure the difference."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer.core import TyperCommand

from zerofleet.errors import ConfigError

if TYPE_CHECKING:
    from typer._click import Context

NO_TORCH = (
    "this command trains a network, and torch is not installed: pip install 'zerofleet[trainer]'"
)


class SeveralValues(TyperCommand):
    """A command whose ``--seeds`` and ``--simulations`` take several values: ``--seeds 1 2``."""

    _options = ("--seeds", "--simulations")

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Repeat the option before each further number, as the parser wants it."""
        return super().parse_args(ctx, list(self._repeated(args)))

    def _repeated(self, args: Sequence[str]) -> list[str]:
        found: list[str] = []
        option, is_first = "", False
        for argument in args:
            if option and not is_first and argument.lstrip("-").isdecimal():
                found += [option, argument]
                continue
            if is_first:
                is_first = False
            else:
                option = argument if argument in self._options else ""
                is_first = bool(option)
            found.append(argument)
        return found


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN.toml",
            help="Run files, or their names: connect_four. Each one is compared with the first.",
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Add a run: the first run file with this key changed, such as search.c_puct=2. "
            "Separate several keys by commas; repeat the option for further runs.",
        ),
    ] = None,
    common: Annotated[
        list[str] | None,
        typer.Option(
            "--set-all",
            metavar="KEY=VALUE",
            help="Change a key of every run: trainer.publish_every_steps=100; may be repeated.",
        ),
    ] = None,
    cpu_seconds: Annotated[
        float | None,
        typer.Option(help="CPU time of each training: self-play, gradient steps, export [600]."),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Most gradient steps, instead of CPU time or with it.")
    ] = None,
    games: Annotated[
        int | None, typer.Option(min=1, help="Most games, instead of CPU time or with it.")
    ] = None,
    evaluations: Annotated[
        int | None,
        typer.Option(
            min=1, help="Most positions evaluated by self-play, instead of CPU time or with it."
        ),
    ] = None,
    seeds: Annotated[
        list[int] | None,
        typer.Option(metavar="SEED...", help="Seeds; each run is trained with each of them [1 2]."),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            min=1, help="Most seeds to train at once, each in a process of its own on one core."
        ),
    ] = 1,
    match: Annotated[
        int,
        typer.Option(
            min=0, help="Games of each run against the first, for each seed; 0: no match."
        ),
    ] = 100,
    positions: Annotated[
        int, typer.Option(min=2, help="Most positions of each kind in an exam.")
    ] = 600,
    simulations: Annotated[
        list[int] | None,
        typer.Option(
            min=1,
            metavar="N...",
            help="Simulations per move in the exam; 1 is the network alone [1 100].",
        ),
    ] = None,
    exams: Annotated[
        int,
        typer.Option(
            min=0, help="Exams during each training, for the curves; the final exam is extra."
        ),
    ] = 5,
    perfect_play: Annotated[
        int,
        typer.Option(
            min=0, help="Games of each model against the perfect player; Connect Four, chess."
        ),
    ] = 0,
    gnugo: Annotated[
        int, typer.Option(min=0, help="Games of each model against each level of GNU Go; for Go.")
    ] = 0,
    anchors: Annotated[
        list[str] | None,
        typer.Option(
            "--anchor",
            metavar="NAME",
            help="Opponent of each model: random, search, gnugo:LEVEL, uci:PROGRAM, gtp:COMMAND, "
            "python:MODULE:CLASS; may be repeated.",
        ),
    ] = None,
    anchor_games: Annotated[int, typer.Option(min=2, help="Games against each anchor.")] = 20,
    precision: Annotated[
        Literal["run", "fp32", "int8"],
        typer.Option(help="Precision of the models in self-play; run: as the run file says."),
    ] = "run",
    output: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder for the results [comparisons/NAMES].")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Train run files from scratch for the same CPU time, and measure which one learns more.

    Each run file is trained with each seed, without Postgres, Redis and services. The runs of a
    seed take turns in one process on one core; --jobs trains several seeds at once. All models
    take the same exam, if perfect play of the game is known. Each model also plays a match against
    the model of the first run file. The table has each difference with its standard error over
    positions and over seeds. The folder has the table and the curves as one HTML page.

    The same command resumes an interrupted comparison. With more --seeds it trains the new ones.
    The command needs torch: pip install 'zerofleet[trainer]'.
    """
    if find_spec("torch") is None:
        raise ConfigError(NO_TORCH)
    if cpu_seconds is not None and not cpu_seconds > 0:
        raise ConfigError(f"--cpu-seconds {cpu_seconds:g}: give a number above 0")
    if cpu_seconds is None and not (steps or games or evaluations):
        cpu_seconds = 600.0
    request = {
        "runs": runs,
        "settings": settings or [],
        "common": common or [],
        "cpu_seconds": cpu_seconds,
        "steps": steps,
        "games": games,
        "evaluations": evaluations,
        "seeds": seeds or [1, 2],
        "jobs": jobs,
        "match": match,
        "positions": positions,
        "simulations": list(dict.fromkeys(simulations or [1, 100])),
        "exams": exams,
        "perfect_play": perfect_play,
        "gnugo": gnugo,
        "anchors": anchors or [],
        "anchor_games": anchor_games,
        "precision": precision,
        "output": output,
        "as_json": as_json,
    }
    command = [sys.executable, "-m", "zerofleet.comparison", json.dumps(request)]
    os.execv(command[0], command)  # signals then reach the program that trains
