"""``zerofleet exam``: errors of a model against perfect play, and games against GNU Go."""

from __future__ import annotations

import asyncio
import json
import textwrap
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zerofleet.cli.run_options import DataOption, RunFile, chosen_folder
from zerofleet.cli.terminal import echo
from zerofleet.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zerofleet.config import RunConfig
    from zerofleet.database import Database, ExamFigures, GroupErrors, ModelRow
    from zerofleet.models.session import ModelSession
    from zerofleet.prediction import Prediction


_COLUMNS = {
    "model": ("model", 5),
    "kind": ("exam", 14),
    "simulations": ("simulations", 11),
    "positions": ("positions", 9),
    "errors": ("errors", 6),
    "error_rate": ("error rate", 10),
    "prior_errors": ("network-only errors", 19),
    "value_error": ("value error", 11),
    "wins": ("won", 6),
    "draws": ("drawn", 6),
    "given_away": ("mistakes", 8),
    "margin": ("area margin", 11),
    "even_komi": ("even komi", 9),
}
"""Heading and width of each column of the table."""
_ALWAYS = ("model", "kind", "simulations", "positions", "errors", "error_rate")
_POSITIONS = ("prior_errors", "value_error")
_AGAINST_SOLVER = ("wins", "draws", "given_away")
_AGAINST_GNU_GO = ("wins", "draws", "margin", "even_komi")
_WIDTH = 100  # width of the lines with errors by group


@dataclass(frozen=True, slots=True)
class _ExamRequest:
    """The exams to run on each model; None: not requested."""

    run: RunConfig
    simulations: int
    positions: int
    perfect_play: int | None
    gnugo: int | None
    levels: Sequence[int]
    """Levels of GNU Go; empty: the usual ones."""

    @property
    def columns(self) -> list[str]:
        """Columns of the table that these exams can fill."""
        from zerofleet.exam import position_kinds

        wanted: list[str] = list(_ALWAYS)
        if position_kinds(self.run.game.name) not in ((), ("lines",)):
            wanted += _POSITIONS
        if self.perfect_play:
            wanted += _AGAINST_SOLVER
        if self.gnugo:
            wanted += _AGAINST_GNU_GO
        return wanted


def exam(
    run_file: RunFile = None,
    data: DataOption = None,
    model: Annotated[
        str, typer.Option(help="A version, 'best', or 'all'.", metavar="VERSION")
    ] = "best",
    simulations: Annotated[
        int | None, typer.Option(min=1, help="Simulations for each move [run file].")
    ] = None,
    positions: Annotated[
        int | None, typer.Option(min=1, help="Size of a sample [run file].")
    ] = None,
    perfect_play: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Connect Four: games with each colour, for each way in which the solver plays. "
            "Chess: games from each won ending.",
        ),
    ] = None,
    gnugo: Annotated[
        int | None, typer.Option(min=2, help="Go: games against each level of GNU Go.")
    ] = None,
    gnugo_level: Annotated[
        list[int] | None,
        typer.Option(min=1, max=10, help="Level of GNU Go; may be repeated. [1, 5, 10]"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line for each result.")] = False,
) -> None:
    """Measure how often a model makes mistakes, as a table.

    tic_tac_toe and small games in Python: all lines of play of the opponent, as both colours. An
    error is a line that the model loses by a mistake.

    connect_four: fixed samples of positions, of random play and near good play. An error is an
    action with a worse outcome than the best one. --perfect-play adds whole games against the
    solver, which plays evenly among its best actions or resists longest.

    othello: a sample of positions with 6 to 12 empty squares.

    chess: endgames with three or four pieces, and forced mates in one to three moves. Errors are
    also counted by material and by length of the mate. --perfect-play adds games from won endings
    (KQK, KRK, KBBK, KPK) against the best defence.

    go: --gnugo plays whole games against GNU Go.

    Results of whole games are stored in the table exams.
    """
    from zerofleet import games
    from zerofleet.config import ProcessSettings, read_settings
    from zerofleet.database import Database
    from zerofleet.exam import position_kinds
    from zerofleet.fleet.report import exam_unit
    from zerofleet.local.stores import joined
    from zerofleet.models.model_store import open_store
    from zerofleet.models.session import ModelSession

    folder = chosen_folder(data, run_file)
    run = folder.read_run()
    request = _ExamRequest(
        run,
        simulations or run.exam.num_simulations,
        positions or run.exam.positions,
        perfect_play,
        gnugo,
        gnugo_level or (),
    )
    _check(request)
    spec = games.spec(run.game.name)
    settings = read_settings(ProcessSettings, [str(folder.run_file)])
    settings = settings.model_copy(update={"model_folder": folder.models})
    files = open_store(settings, run.name)
    # The evaluator's rights, because exams are recorded by the evaluator.
    with (
        joined(folder, "exam") as running,
        Database(running.database_urls["evaluator"]) as database,
    ):
        rows = _chosen_models(database, run.name, model)
        if not as_json:
            headings = {key: heading for key, (heading, _) in _COLUMNS.items()}
            echo(_line(headings | {"positions": exam_unit(position_kinds(run.game.name))}, request))
        for row in rows:
            session = ModelSession(files.read_verified(row.sha256), spec)
            asyncio.run(_examine(request, _InProcess(session, row.version), database, as_json))


def _check(request: _ExamRequest) -> None:
    """Refuse exams that this game does not have."""
    from zerofleet.exam import OWN_EXAM_HINT, position_kinds
    from zerofleet.exam.gnu_go import check_gnu_go
    from zerofleet.games.chess import is_chess
    from zerofleet.games.go import is_go

    game = request.run.game.name
    if request.perfect_play and not (game == "connect_four" or is_chess(game)):
        raise ConfigError(
            "--perfect-play needs a solver, and only connect_four and chess have one: leave it out "
            f"for {game}"
        )
    if request.levels and not request.gnugo:
        raise ConfigError(
            f"--gnugo-level {request.levels[0]} needs a number of games: add --gnugo 20, or "
            "leave it out"
        )
    if request.gnugo:
        check_gnu_go(game)
        if request.gnugo % 2:
            raise ConfigError(
                f"--gnugo {request.gnugo}: each opening is played with both colours, so give an "
                f"even number, such as {request.gnugo + 1}"
            )
    elif not position_kinds(game):
        go = ", but games against GNU Go, with --gnugo 20" if is_go(game) else ""
        own = f". {OWN_EXAM_HINT}" if game.startswith("python:") else ""
        raise ConfigError(f"perfect play of {game} is not known: there is no exam{go}{own}")


async def _examine(
    request: _ExamRequest, predictor: _InProcess, database: Database, as_json: bool
) -> None:
    """Run the exams on one model, and store the results of whole games."""
    run = request.run
    async for kind, positions, errors, figures, groups in _results(request, predictor):
        values: dict[str, Any] = {
            "game": run.game.name,
            "model": predictor.version,
            "kind": kind,
            "simulations": request.simulations,
            "positions": positions,
            "errors": errors,
            "error_rate": errors / positions,
            **asdict(figures),
        }
        if as_json:
            by_group = {"groups": [asdict(each) for each in groups]} if groups else {}
            echo(json.dumps(values | by_group))
        else:
            echo(_line(values, request))
            for line in _group_lines(groups):
                echo(line)
        if figures.wins is not None:
            database.insert_exam(
                run.name,
                predictor.version,
                request.simulations,
                positions,
                errors,
                kind=kind,
                figures=figures,
            )


async def _results(
    request: _ExamRequest, predictor: _InProcess
) -> AsyncIterator[tuple[str, int, int, ExamFigures, Sequence[GroupErrors]]]:
    """Yield each exam: its kind, number of positions or games, errors, figures and groups."""
    from zerofleet.database import ExamFigures
    from zerofleet.exam import (
        ENDINGS,
        SOLVER_CHOICES,
        examine,
        play_endings,
        play_first,
        play_second,
        position_kinds,
    )
    from zerofleet.exam.examined_player import ExaminedPlayer
    from zerofleet.exam.gnu_go import LEVELS, play_gnu_go
    from zerofleet.games.chess import is_chess

    run, simulations = request.run, request.simulations
    most_rows = run.inference.max_batch_rows
    for kind in position_kinds(run.game.name):
        result = await examine(
            run.game.name,
            predictor,
            num_simulations=simulations,
            positions=request.positions,
            kind=kind,
            search=run.search,
            most_rows=most_rows,
        )
        figures = ExamFigures(result.prior_errors, result.value_error)
        yield kind, result.positions, result.errors, figures, result.groups
    player = ExaminedPlayer.of(run.game.name, predictor, simulations, run.search, most_rows)
    if request.perfect_play and is_chess(run.game.name):
        for material in ENDINGS:
            ended = await play_endings(player, material, request.perfect_play)
            figures = ExamFigures(wins=ended.wins, draws=ended.draws, given_away=ended.given_away)
            yield f"won:{material}", ended.games, ended.draws, figures, ()
    elif request.perfect_play:
        for side, play in (("first", play_first), ("second", play_second)):
            for choice in SOLVER_CHOICES:
                ended = await play(player, request.perfect_play, choice)
                figures = ExamFigures(
                    wins=ended.wins, draws=ended.draws, given_away=ended.given_away
                )
                yield f"{side}:{choice}", ended.games, ended.games - ended.kept, figures, ()
    for level in (request.levels or LEVELS) if request.gnugo else ():
        report = partial(_say_played, level)
        ended = await play_gnu_go(run, predictor, level, request.gnugo or 0, simulations, report)
        figures = ExamFigures(
            wins=ended.wins,
            draws=ended.draws,
            margin=ended.mean_margin,
            even_komi=ended.even_komi,
        )
        if ended.given_up:
            echo(
                f"{ended.given_up} of the games won against GNU Go's level {level} were not played "
                "out: it played an illegal move, refused a legal one, or gave up",
                err=True,
            )
        lost = ended.games - ended.wins - ended.draws
        yield f"gnugo:{level}", ended.games, lost, figures, ()


def _say_played(level: int, over: int, games: int) -> None:
    echo(f"{over} of {games} games against GNU Go's level {level}", err=True)


def _line(values: dict[str, Any], request: _ExamRequest) -> str:
    """Return a row of the table; a missing value is a dash."""
    return "  ".join(
        f"{_cell(key, values[key]):{'<' if key == 'kind' else '>'}{_COLUMNS[key][1]}}"
        for key in request.columns
    )


def _group_lines(groups: Sequence[GroupErrors]) -> list[str]:
    """Return lines with the errors and the number of positions of each group."""
    cells = [f"{each.name} {each.errors}/{each.positions}" for each in groups]
    # A name and its figures stay on one line.
    lines = textwrap.wrap(", ".join(cell.replace(" ", "\0") for cell in cells), _WIDTH - 2)
    return [f"  {line}".replace("\0", " ") for line in lines]


def _cell(key: str, value: float | str | None) -> str:
    if value is None:
        return "-"
    if key == "error_rate" and isinstance(value, float):
        return f"{value:.2%}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class _InProcess:
    """A predictor without a server, so that the exam needs nothing else to run."""

    def __init__(self, session: ModelSession, version: int) -> None:
        self._session = session
        self.version = version

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        from zerofleet.prediction import Prediction

        policy_logits, value = self._session.run(observations)
        return Prediction(policy_logits, value, self.version)


def _chosen_models(database: Database, run: str, wanted: str) -> list[ModelRow]:
    from zerofleet.games.notation import whole_number

    rows = {row.version: row for row in database.models(run)}
    if not rows:
        raise ConfigError(f"the run '{run}' has no model yet")
    if wanted == "all":
        return list(rows.values())
    if wanted == "best":
        head = database.promotion_head(run)
        if head is None:
            raise ConfigError(f"the run '{run}' has promoted no model yet: give --model VERSION")
        return [rows[head.version]]
    version = whole_number(wanted, max(rows))
    if version not in rows:
        raise ConfigError(
            f"the run '{run}' has no model {wanted!r}: give 'best', 'all' or a version from "
            f"{min(rows)} to {max(rows)}"
        )
    return [rows[version]]
