"""``zerofleet play``: a person against the model, in the terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zerofleet.cli.chosen import chosen_folder
from zerofleet.errors import ConfigError

if TYPE_CHECKING:
    from zerofleet.local.folder import DataFolder


def play(
    data: Annotated[Path | None, typer.Option(help="Data folder of the run.")] = None,
    address: Annotated[
        str | None, typer.Option(help="An inference service elsewhere.", metavar="HOST:PORT")
    ] = None,
    game: Annotated[
        str | None, typer.Option(help="With --address: the game its run plays.")
    ] = None,
    model: Annotated[str, typer.Option(help="A version, or 'best'.", metavar="VERSION")] = "best",
    simulations: Annotated[
        int | None, typer.Option(min=1, help="Simulations for each of its actions [run file].")
    ] = None,
    first: Annotated[bool, typer.Option("--first/--second", help="Which player you are.")] = True,
) -> None:
    """Play against the model in the terminal.

    Uses the run's inference service; if none runs, one is started for the time.
    """
    from zerofleet import games
    from zerofleet.cli.duel import Duel, RemoteOpponent

    if address is not None:
        if game is None:
            raise ConfigError("with --address, give --game: tic_tac_toe, connect_four, ...")
        games.spec(game)
        with RemoteOpponent(address, "", game, model, simulations) as opponent:
            Duel(opponent, 0 if first else 1).play()
        return
    folder = chosen_folder(data)
    with (
        _service(folder) as found,
        RemoteOpponent(found, folder.run, folder.game, model, simulations) as opponent,
    ):
        Duel(opponent, 0 if first else 1).play()


@contextlib.contextmanager
def _service(folder: DataFolder) -> Generator[str]:
    """The address of this run's inference service, started if nobody runs it."""
    from zerofleet.best import BestPointer
    from zerofleet.database import Database
    from zerofleet.local.lone_inference import lone_inference
    from zerofleet.local.running import joined

    with joined(folder, "play") as running:
        with Database(running.database_urls["console"]) as database:
            if database.promotion_head(folder.run) is None:
                raise ConfigError(
                    f"the run '{folder.run}' has promoted no model yet: train it first with "
                    f"`zerofleet up {folder.run_file} --data {folder.root}`"
                )
            if running.inference_address is not None:
                yield running.inference_address
                return
            BestPointer(running.redis_url, folder.run).reconcile(database)
        typer.echo("starting the inference service", err=True)
        with lone_inference(folder, running) as address:
            yield address
