"""``zerofleet migrate``: make or update the tables of a Postgres database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zerofleet.cli.secret_options import PasswordFile, logged_in


def migrate(
    database_url: Annotated[
        str,
        typer.Option(
            envvar="ZEROFLEET_DATABASE_URL",
            help="Postgres, with the owner's rights: postgresql://user@host/name",
        ),
    ],
    password_file: PasswordFile = None,
    role_passwords: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Give each role the password in the file of its name (zerofleet_worker, ...).",
        ),
    ] = None,
) -> None:
    """Make or update the tables of a Postgres database.

    Safe to repeat. `zerofleet up` does it by itself; on a cluster, a job does it first.
    """
    from zerofleet.database import migrate as migrate_database

    migrate_database(logged_in(database_url, password_file), role_passwords)
    typer.echo("the database is up to date")
