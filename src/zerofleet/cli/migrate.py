"""``zerofleet migrate``: make or update the tables of a Postgres database."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from zerofleet.cli.run_options import PasswordFile, logged_in
from zerofleet.cli.terminal import echo
from zerofleet.errors import StoreUnavailableError


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
    wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="How long to wait for Postgres.")
    ] = 0,
) -> None:
    """Make or update the tables of a Postgres database.

    Safe to repeat. `zerofleet up` does it by itself; on a cluster, a job does it first.
    """
    from zerofleet.database import migrate as migrate_database
    from zerofleet.waiting import Backoff

    url, backoff, deadline = (
        logged_in(database_url, password_file),
        Backoff(),
        time.monotonic() + wait,
    )
    while True:
        try:
            migrate_database(url, role_passwords, say=partial(echo, err=True))
        except StoreUnavailableError as error:
            delay = backoff.delay()
            if time.monotonic() + delay > deadline:
                raise
            echo(f"waiting for Postgres: {error}", err=True)
            time.sleep(delay)
        else:
            break
    echo("the database is up to date")
