"""``zerofleet uci``: the model as a UCI engine."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from zerofleet.cli.run_options import (
    AllowPlaintext,
    DataOption,
    RunFile,
    TlsFolder,
    TokenFile,
    client_credentials,
)
from zerofleet.cli.serving import refuse_two_services, service_address, with_port


def uci(
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
        int | None,
        typer.Option(min=1, help="Simulations for a move without clock or limit [the server's]."),
    ] = None,
    leaves: Annotated[
        int, typer.Option(min=1, help="Leaves of the tree predicted at once: faster, and weaker.")
    ] = 1,
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

    refuse_two_services(address, run_file, data)
    search = SearchOptions(simulations=simulations, leaves=leaves)
    options = EngineOptions(version=model, search=search)
    # The run's own service is on this machine and needs no credentials.
    shown = (tls, token_file, allow_plaintext) if address is not None else (None, None, False)
    with service_address(address, run_file, data, "uci") as found:
        asyncio.run(serve_uci(found, options, client_credentials(*shown)))
