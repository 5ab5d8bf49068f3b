"""``zerofleet redis-acl``: the users of Redis, each with what it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zerofleet.cli.terminal import echo


def redis_acl(
    passwords: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Password files, one for each user: worker, inference, ..."
        ),
    ],
) -> None:
    """Print an ACL file for Redis or Valkey (`aclfile FILE` in its configuration).

    Passwords appear as digests. Each line of a user's file is a password of that user, so an old
    one can stay valid for a while.
    """
    from zerofleet.secrets.redis_users import acl_file

    echo(acl_file(passwords), nl=False)
