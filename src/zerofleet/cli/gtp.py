"""``zerofleet gtp``: the model as a GTP engine."""

from __future__ import annotations

from typing import Annotated

import typer

from zerofleet.cli.run_options import (
    AllowPlaintext,
    DataOption,
    RunFile,
    TlsFolder,
    TokenFile,
)
from zerofleet.cli.serving import Address, Leaves, ModelVersion, serve_controller


def gtp(
    run_file: RunFile = None,
    data: DataOption = None,
    address: Address = None,
    model: ModelVersion = "best",
    simulations: Annotated[
        int | None, typer.Option(min=1, help="Simulations for each move [the server's].")
    ] = None,
    leaves: Leaves = 1,
    tls: TlsFolder = None,
    token_file: TokenFile = None,
    allow_plaintext: AllowPlaintext = False,
) -> None:
    """Play Go on a board that speaks the Go Text Protocol (GTP), version 2.

    Size and komi are the run's. A move takes its number of simulations, whatever the clock says.
    """
    from zerofleet.engine_lines import EngineOptions
    from zerofleet.gtp.engine import serve_gtp
    from zerofleet.rpc.player_service import SearchOptions

    options = EngineOptions(model, SearchOptions(simulations=simulations, leaves=leaves))
    service = (address, run_file, data)
    serve_controller("gtp", serve_gtp, options, service, (tls, token_file, allow_plaintext))
