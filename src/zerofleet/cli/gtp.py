"""``zerofleet gtp``: the model as a GTP engine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import Annotated

import typer

from zerofleet.cli.chosen import chosen_folder
from zerofleet.errors import ConfigError


def gtp(
    address: Annotated[
        str | None, typer.Option(help="An inference service.", metavar="HOST:PORT")
    ] = None,
    run_file: Annotated[
        Path | None, typer.Option(help="Instead: the run whose service is asked.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Instead: data folder of the run.")] = None,
    model: Annotated[str, typer.Option(help="A version, or 'best'.", metavar="VERSION")] = "best",
    simulations: Annotated[
        int | None, typer.Option(min=1, help="Simulations for each move [the server's].")
    ] = None,
    leaves: Annotated[
        int, typer.Option(min=1, help="Leaves of the tree predicted at once: faster, and weaker.")
    ] = 1,
) -> None:
    """Play Go for a board that speaks GTP 2, such as Sabaki or Lizzie.

    Size and komi are the run's. A move takes its number of simulations, whatever the clock says.
    """
    from zerofleet.gtp.engine import EngineOptions
    from zerofleet.gtp.serve import serve_gtp
    from zerofleet.rpc import SearchOptions

    search = SearchOptions(num_simulations=simulations, leaves=leaves)
    with _address(address, run_file, data) as found:
        asyncio.run(serve_gtp(found, EngineOptions(version=model, search=search)))


@contextlib.contextmanager
def _address(address: str | None, run_file: Path | None, data: Path | None) -> Generator[str]:
    """The service that was named, or the run's own, started if nobody runs it."""
    if address is not None:
        yield address
        return
    from zerofleet.local.lone_inference import lone_inference
    from zerofleet.local.running import joined

    folder = chosen_folder(data, run_file)
    with joined(folder, "gtp") as running:
        if running.inference_address is not None:
            yield running.inference_address
            return
        _restore_best(folder.run, running.database_urls["console"], running.redis_url)
        with lone_inference(folder, running) as started:
            yield started


def _restore_best(run: str, database_url: str, redis_url: str) -> None:
    """Point at the promoted model again: the pointer's store may be new."""
    from zerofleet.best import BestPointer
    from zerofleet.database import Database

    with Database(database_url) as database:
        if database.promotion_head(run) is None:
            raise ConfigError(f"the run '{run}' has promoted no model yet: train it first")
        with contextlib.closing(BestPointer(redis_url, run)) as pointer:
            pointer.reconcile(database)
