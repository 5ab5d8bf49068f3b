"""``zerofleet exam``: how often a model errs where perfect play is known."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zerofleet.cli.which_run import chosen_folder
from zerofleet.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
        int | None, typer.Option(min=1, help="Size of the sample, Connect Four [run file].")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line for each model.")] = False,
) -> None:
    """Measure how often a model errs.

    tic_tac_toe: all lines of play of the opponent, as both colours; an error is a line lost.
    connect_four: a fixed sample of positions; an error is an action with a worse outcome than the
    best one.
    """
    from zerofleet import games
    from zerofleet.config import ProcessSettings, load_run, read_settings
    from zerofleet.database import Database
    from zerofleet.exam import examine, has_exam
    from zerofleet.local.running import joined
    from zerofleet.models.model_store import open_store
    from zerofleet.models.session import ModelSession

    folder = chosen_folder(data)
    run = load_run(folder.run_file)
    if not has_exam(run.game.name):
        raise ConfigError(f"perfect play of {run.game.name} is not known: there is no exam")
    spec = games.spec(run.game.name)
    settings = read_settings(ProcessSettings, [str(folder.run_file)])
    settings = settings.model_copy(update={"model_folder": folder.models})
    files = open_store(settings, run.name)
    with joined(folder, "exam") as running, Database(running.database_urls["console"]) as database:
        rows = _chosen_models(database, run.name, model)
    for row in rows:
        session = ModelSession(files.read_verified(row.sha256), spec)
        result = asyncio.run(
            examine(
                run.game.name,
                _InProcess(session, row.version),
                num_simulations=simulations or run.exam.num_simulations,
                positions=positions or run.exam.positions,
                search=run.search,
                most_rows=run.inference.max_batch_rows,
            )
        )
        values = {
            "game": result.game,
            "model": row.version,
            "simulations": result.num_simulations,
            "positions": result.positions,
            "errors": result.errors,
            "error_rate": result.error_rate,
        }
        typer.echo(json.dumps(values) if as_json else _sentence(values))


class _InProcess:
    """A predictor without a server: the exam may run while nothing else does."""

    def __init__(self, session: ModelSession, version: int) -> None:
        self._session = session
        self._version = version

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        from zerofleet.prediction import Prediction

        policy_logits, value = self._session.run(observations)
        return Prediction(policy_logits, value, self._version)


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


def _sentence(values: dict[str, str | int | float]) -> str:
    what = "lines lost" if values["game"] == "tic_tac_toe" else "positions misplayed"
    return (
        f"model {values['model']}: {values['errors']:,} of {values['positions']:,} {what}, "
        f"error rate {values['error_rate']:.4f} at {values['simulations']} simulations"
    )
