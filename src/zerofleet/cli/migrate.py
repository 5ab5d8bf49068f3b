"""``zerofleet migrate``: make or update the tables of a Postgres database."""

from __future__ import annotations

from typing import Annotated

import typer


def migrate(
    database_url: Annotated[
        str,
        typer.Option(
            envvar="ZEROFLEET_DATABASE_URL",
            help="Postgres, with the owner's rights: postgresql://user@host/name?passfile=FILE",
        ),
    ],
) -> None:
    """Make or update the tables of a Postgres database.

    Safe to repeat. `zerofleet up` does it by itself; on a cluster, a job does it first.
    """
    from zerofleet.database import migrate as migrate_database

    migrate_database(database_url)
    typer.echo("the database is up to date")
