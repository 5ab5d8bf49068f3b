"""``zerofleet token``: a bearer token for a person or a program."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from zerofleet.cli.terminal import echo


class TokenRole(StrEnum):
    """Role of a token."""

    worker = "worker"
    viewer = "viewer"
    client = "client"
    admin = "admin"


def token(
    name: Annotated[str, typer.Argument(help="Name of its owner, for logs.")],
    role: Annotated[
        TokenRole,
        typer.Option(
            help="worker: predictions; viewer: the dashboard; client: a player; admin: everything."
        ),
    ],
    tokens: Annotated[Path, typer.Option(metavar="FILE", help="File with the accepted tokens.")],
) -> None:
    """Create a token, print it, and let servers accept it.

    Only its digest is stored. FILE is the servers' ZEROFLEET_TOKEN_ROLES_FILE, which they read
    again when it changes. To revoke a token, delete its entry there.
    """
    from zerofleet.secrets.tokens import add_token

    echo(add_token(tokens, name, role.value))
