"""``zerofleet play``: a person against the model, in the terminal."""

from __future__ import annotations

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
from zerofleet.cli.serving import Address, ModelVersion, refuse_two_services, serving
from zerofleet.errors import ConfigError


def play(
    run_file: RunFile = None,
    data: DataOption = None,
    address: Address = None,
    game: Annotated[
        str | None, typer.Option(help="With --address: the game its run plays.")
    ] = None,
    model: ModelVersion = "best",
    simulations: Annotated[
        int | None, typer.Option(min=1, help="Simulations for each of its moves [the server's].")
    ] = None,
    first: Annotated[
        bool,
        typer.Option(
            "--first/--second", help="Move first (White in chess, Black in Go) or second."
        ),
    ] = True,
    position: Annotated[
        str, typer.Option(help="Start position in the game's notation.", metavar="TEXT")
    ] = "",
    tls: TlsFolder = None,
    token_file: TokenFile = None,
    allow_plaintext: AllowPlaintext = False,
) -> None:
    """Play against the model in the terminal.

    Uses the run's inference service. If the run is stopped, one is started for the game.
    """
    from zerofleet.cli.interactive import InteractiveGame, RemoteOpponent

    refuse_two_services(address, run_file, data)
    if address is not None:
        if game is None:
            raise ConfigError("with --address, give --game: tic_tac_toe, connect_four, ...")
        start = playable_start(game, position)
        credentials = client_credentials(tls, token_file, allow_plaintext)
        with RemoteOpponent(address, "", game, model, simulations, credentials) as opponent:
            InteractiveGame(opponent, 0 if first else 1, start=start).play()
        return
    folder = chosen_folder(data, run_file)
    start = playable_start(folder.game, position)
    with (
        serving(folder, "play") as found,
        RemoteOpponent(found, folder.run, folder.game, model, simulations, {}) as opponent,
    ):
        InteractiveGame(opponent, 0 if first else 1, start=start).play()


def playable_start(game: str, text: str) -> str:
    """Return a start position as the game writes it; empty for the usual start.

    Raises:
        ConfigError: no such game, the text is not a position of it, or the game is over there.
    """
    from zerofleet.games import State
    from zerofleet.games.notation import checked_start

    try:
        start = checked_start(game, text)
    except ConfigError as error:
        raise ConfigError(f"--position: {error}" if text else str(error)) from error
    if start and State(game, [], start).is_terminal:
        raise ConfigError(f"--position: the game is over in {start!r}")
    return start
