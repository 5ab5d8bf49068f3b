"""``zerofleet check-game``: try the rules of a game."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from zerofleet.cli.terminal import echo
from zerofleet.errors import ConfigError

if TYPE_CHECKING:
    from zerofleet.games.conformance import Conformance


def check_game(
    game: Annotated[
        str, typer.Argument(metavar="GAME", help="python:MODULE:CLASS, or any other game.")
    ],
    games: Annotated[int, typer.Option(min=1, help="Random games.")] = 20,
    seed: Annotated[
        int, typer.Option(min=0, max=999_999_999, help="The same seed plays the same games.")
    ] = 1,
) -> None:
    """Try the rules of a game: play it at random, search it and train on it.

    The check finds what would break a run, such as a copy that shares its board
    with the original, or a symmetry under which the rules change. It stops at the
    first mistake and prints what to change. A line that begins with "but" is a
    warning: the game is valid, but may not be learnt.
    """
    echo(str(require_conformance(game, games, seed)))


def require_conformance(game: str, games: int, seed: int = 1) -> Conformance:
    """Check a game, and return the result.

    Raises:
        ConfigError: the game breaks the contract; the message says what to change.
    """
    from zerofleet.games.conformance import check_conformance

    try:
        return check_conformance(game, games, seed)
    except (AssertionError, ConfigError) as error:
        help_page = "; docs/tutorials/your-own-game.md says what each method does"
        raise ConfigError(f"{error}{help_page if game.startswith('python:') else ''}") from error
