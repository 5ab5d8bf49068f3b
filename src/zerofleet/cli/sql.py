"""``zerofleet sql``: ask the games a question."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from zerofleet.cli.chosen import chosen_folder

_WELCOME = "Read-only. \\dv lists the views, \\d games describes a table, \\q leaves."


def sql(
    data: Annotated[Path | None, typer.Option(help="Data folder of the run.")] = None,
    query: Annotated[
        list[str] | None,
        typer.Option(
            "-c", "--command", metavar="QUERY", help="Run this and leave; several go in order."
        ),
    ] = None,
    database_url: Annotated[
        str | None, typer.Option(help="Any Postgres instead of a data folder's.")
    ] = None,
) -> None:
    """Ask the games a question in SQL (psql, read-only).

    A run that is stopped has its database started for the time.
    """
    from zerofleet.cli.signals import interrupts_ignored
    from zerofleet.local.running import joined

    if database_url is not None:
        _leave(_psql(database_url, query or []))
    folder = chosen_folder(data)
    with joined(folder, "sql") as running, interrupts_ignored():
        status = _psql(running.database_urls["console"], query or [])
    _leave(status)


def _psql(url: str, queries: Sequence[str]) -> int:
    """Run psql to its end; its exit status."""
    from zerofleet.local.postgres_programs import find_programs

    # The role has no right to write; a database that somebody else set up may lack the role.
    options = "-c default_transaction_read_only=on -c statement_timeout=30s"
    arguments = [
        str(find_programs().folder / "psql"),
        "--no-psqlrc",
        "--set=ON_ERROR_STOP=1",
        "--pset=null=-",
    ]
    if queries:
        arguments += ["--pset=pager=off", "--pset=footer=off"]
        arguments += [f"--command={query}" for query in queries]
    elif sys.stdin.isatty():
        typer.echo(_WELCOME, err=True)
    else:
        arguments += ["--pset=pager=off"]
    environment = {"PGOPTIONS": options, "PGAPPNAME": "zerofleet sql"}
    return _run(arguments, url, environment)


def _run(arguments: list[str], url: str, environment: dict[str, str]) -> int:
    import os

    from zerofleet.database import without_password

    target, password = without_password(url)
    if password is not None:
        environment["PGPASSWORD"] = password
    completed = subprocess.run(
        [*arguments, f"--dbname={target}"], env={**os.environ, **environment}, check=False
    )
    return completed.returncode


def _leave(status: int) -> None:
    raise typer.Exit(status)
