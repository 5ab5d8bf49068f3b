"""``zerofleet uci``: the model as a UCI engine."""

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


def uci(
    run_file: RunFile = None,
    data: DataOption = None,
    address: Address = None,
    model: ModelVersion = "best",
    simulations: Annotated[
        int | None,
        typer.Option(min=1, help="Simulations for a move without clock or limit [the server's]."),
    ] = None,
    leaves: Leaves = 1,
    tls: TlsFolder = None,
    token_file: TokenFile = None,
    allow_plaintext: AllowPlaintext = False,
) -> None:
    """Play chess in a program that speaks the Universal Chess Interface (UCI).

    The engine keeps to the clock, to a number of nodes or to a time for each move.
    """
    from zerofleet.engine_lines import EngineOptions
    from zerofleet.rpc.player_service import SearchOptions
    from zerofleet.uci.chess_engine import serve_uci

    options = EngineOptions(model, SearchOptions(simulations=simulations, leaves=leaves))
    service = (address, run_file, data)
    serve_controller("uci", serve_uci, options, service, (tls, token_file, allow_plaintext))
