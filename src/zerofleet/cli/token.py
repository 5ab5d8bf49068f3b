"""``zerofleet token``: a bearer token for a person or a program."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from zerofleet.cli.echo import echo


class TokenRole(StrEnum):
    """What a token is good for."""

    worker = "worker"
    viewer = "viewer"
    client = "client"
    admin = "admin"


def token(
    name: Annotated[str, typer.Argument(help="Whose it is; servers log the name.")],
    role: Annotated[
        TokenRole,
        typer.Option(
            help="worker: predictions; viewer: the page; client: a player; admin: everything."
        ),
    ],
    tokens: Annotated[
        Path, typer.Option(metavar="FILE", help="The file that servers accept tokens by.")
    ],
) -> None:
    """Make a token, print it, and let servers accept it.

    Only its digest is kept: FILE is their ZEROFLEET_TOKEN_ROLES_FILE, which they read again when it
    changes. To withdraw a token, delete its entry there.
    """
    from zerofleet.secrets.tokens import add_token

    echo(add_token(tokens, name, role.value))
