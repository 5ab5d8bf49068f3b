"""``zerofleet exam``: how often a model errs where perfect play is known."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zerofleet.cli.which_run import chosen_folder
from zerofleet.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zerofleet.config import RunConfig
    from zerofleet.database import Database, ModelRow
    from zerofleet.models.session import ModelSession
    from zerofleet.prediction import Prediction


def exam(
    data: Annotated[Path | None, typer.Option(help="Data folder of the run.")] = None,
    model: Annotated[
        str, typer.Option(help="A version, 'best', or 'all'.", metavar="VERSION")
    ] = "best",
    simulations: Annotated[
        int | None, typer.Option(min=1, help="Simulations for each action [run file].")
    ] = None,
    positions: Annotated[
        int | None, typer.Option(min=1, help="Size of a sample, Connect Four [run file].")
    ] = None,
    perfect_play: Annotated[
        int | None,
        typer.Option(min=1, help="Games against the solver, by each colour; Connect Four."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line for each result.")] = False,
) -> None:
    """Measure how often a model errs.

    tic_tac_toe: all lines of play of the opponent, as both colours; an error is a line lost.
    connect_four: fixed samples of positions, of random play and near good play; an error is an
    action with a worse outcome than the best one.
    """
    from zerofleet import games
    from zerofleet.config import ProcessSettings, load_run, read_settings
    from zerofleet.database import Database
    from zerofleet.exam import position_kinds
    from zerofleet.local.running import joined
    from zerofleet.models.model_store import open_store
    from zerofleet.models.session import ModelSession

    folder = chosen_folder(data)
    run = load_run(folder.run_file)
    if not position_kinds(run.game.name):
        raise ConfigError(f"perfect play of {run.game.name} is not known: there is no exam")
    if perfect_play and run.game.name != "connect_four":
        raise ConfigError(
            f"--perfect-play needs a solver, which connect_four has and {run.game.name} has not: "
            "leave it out"
        )
    spec = games.spec(run.game.name)
    settings = read_settings(ProcessSettings, [str(folder.run_file)])
    settings = settings.model_copy(update={"model_folder": folder.models})
    files = open_store(settings, run.name)
    with joined(folder, "exam") as running, Database(running.database_urls["console"]) as database:
        rows = _chosen_models(database, run.name, model)
    for row in rows:
        predictor = _InProcess(ModelSession(files.read_verified(row.sha256), spec), row.version)
        number = simulations or run.exam.num_simulations
        asyncio.run(_examine(run, predictor, number, positions, perfect_play, as_json=as_json))


async def _examine(
    run: RunConfig,
    predictor: _InProcess,
    simulations: int,
    positions: int | None,
    perfect_play: int | None,
    *,
    as_json: bool,
) -> None:
    """Ask one model all that its game's exam asks."""
    from zerofleet.exam import examine, position_kinds

    for kind in position_kinds(run.game.name):
        result = await examine(
            run.game.name,
            predictor,
            num_simulations=simulations,
            positions=positions or run.exam.positions,
            kind=kind,
            search=run.search,
            most_rows=run.inference.max_batch_rows,
        )
        values: dict[str, Any] = {
            "game": result.game,
            "model": predictor.version,
            "kind": result.kind,
            "simulations": result.num_simulations,
            "positions": result.positions,
            "errors": result.errors,
            "error_rate": result.error_rate,
            "value_error": result.value_error,
        }
        typer.echo(json.dumps(values) if as_json else _sentence(values))
    if perfect_play:
        await _play_perfectly(run, predictor, simulations, perfect_play, as_json=as_json)


async def _play_perfectly(
    run: RunConfig, predictor: _InProcess, simulations: int, games: int, *, as_json: bool
) -> None:
    """Play whole games against the solver, as first and as second player."""
    from zerofleet.exam import play_first, play_second
    from zerofleet.exam.examined_player import ExaminedPlayer

    player = ExaminedPlayer.of(
        run.game.name, predictor, simulations, run.search, run.inference.max_batch_rows
    )
    for side, ended in (
        ("first", await play_first(player, games)),
        ("second", await play_second(player, games)),
    ):
        values = {"model": predictor.version, "simulations": simulations, "player": side}
        said = (
            f"model {predictor.version}, {side} player against the solver: {ended.kept:,} of "
            f"{ended.games:,} games as good as perfect, {ended.wins:,} won, {ended.draws:,} drawn, "
            f"{ended.given_away:,} moves gave an outcome away, at {simulations} simulations"
        )
        typer.echo(json.dumps(values | asdict(ended)) if as_json else said)


class _InProcess:
    """A predictor without a server: the exam may run while nothing else does."""

    def __init__(self, session: ModelSession, version: int) -> None:
        self._session = session
        self.version = version

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        from zerofleet.prediction import Prediction

        policy_logits, value = self._session.run(observations)
        return Prediction(policy_logits, value, self.version)


def _chosen_models(database: Database, run: str, wanted: str) -> list[ModelRow]:
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
    if not wanted.isdigit() or int(wanted) not in rows:
        raise ConfigError(
            f"the run '{run}' has no model {wanted!r}: give 'best', 'all' or a version from "
            f"{min(rows)} to {max(rows)}"
        )
    return [rows[int(wanted)]]


def _sentence(values: dict[str, Any]) -> str:
    what = "lines lost" if values["kind"] == "lines" else f"{values['kind']} positions misplayed"
    return (
        f"model {values['model']}: {values['errors']:,} of {values['positions']:,} {what}, "
        f"error rate {values['error_rate']:.4f} at {values['simulations']} simulations"
    )
