"""``zerofleet gtp``: the model as a GTP engine."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Annotated

import typer

from zerofleet.cli.run_options import (
    AllowPlaintext,
    DataOption,
    RunFile,
    TlsFolder,
    TokenFile,
    chosen_folder,
    client_credentials,
)
from zerofleet.cli.serving import refuse_two_services, serving, with_port


def gtp(
    run_file: RunFile = None,
    data: DataOption = None,
    address: Annotated[
        str | None,
        typer.Option(
            callback=with_port, help="Address of another inference service.", metavar="HOST:PORT"
        ),
    ] = None,
    model: Annotated[str, typer.Option(help="A version, or 'best'.", metavar="VERSION")] = "best",
    simulations: Annotated[
        int | None, typer.Option(min=1, help="Simulations for each move [the server's].")
    ] = None,
    leaves: Annotated[
        int, typer.Option(min=1, help="Leaves of the tree predicted at once: faster, and weaker.")
    ] = 1,
    tls: TlsFolder = None,
    token_file: TokenFile = None,
    allow_plaintext: AllowPlaintext = False,
) -> None:
    """Play Go for a board that speaks GTP 2, such as Sabaki or Lizzie.

    Size and komi are the run's. A move takes its number of simulations, whatever the clock says.
    """
    from zerofleet.gtp.engine import EngineOptions, serve_gtp
    from zerofleet.rpc.player_service import SearchOptions

    refuse_two_services(address, run_file, data)
    search = SearchOptions(simulations=simulations, leaves=leaves)
    options = EngineOptions(version=model, search=search)
    # The run's own service is on this machine and needs no credentials.
    shown = (tls, token_file, allow_plaintext) if address is not None else (None, None, False)
    with _address(address, run_file, data) as found:
        asyncio.run(serve_gtp(found, options, client_credentials(*shown)))


def _address(
    address: str | None, run_file: Path | None, data: Path | None
) -> contextlib.AbstractContextManager[str]:
    """Return the given service, or the run's own."""
    if address is not None:
        return contextlib.nullcontext(address)
    return serving(chosen_folder(data, run_file), "gtp")
