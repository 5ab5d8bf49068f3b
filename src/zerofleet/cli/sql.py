"""``zerofleet sql``: query the games."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from zerofleet.cli.run_options import (
    DataOption,
    PasswordFile,
    RunFile,
    chosen_folder,
    fleet_database,
    logged_in,
)
from zerofleet.cli.terminal import echo
from zerofleet.errors import ConfigError

_WELCOME = (
    "Read-only. \\dv lists the views, \\d games describes a table, \\q leaves.\n"
    "TABLE player_names; says which colours the first and the second player have."
)


def sql(
    run_file: RunFile = None,
    data: DataOption = None,
    query: Annotated[
        list[str] | None,
        typer.Option(
            "-c", "--command", metavar="QUERY", help="Run this query and exit; may be repeated."
        ),
    ] = None,
    database_url: Annotated[
        str | None, typer.Option(help="Any Postgres instead of a data folder's.")
    ] = None,
    password_file: PasswordFile = None,
) -> None:
    """Query the games in SQL (psql, read-only).

    The view player_names says which colours the first and the second player have.

    For a stopped run, its database is started for the command. If ZEROFLEET_DATABASE_URL is set, as
    in the containers of a fleet, that Postgres is used.
    """
    from zerofleet.local.stores import joined

    database_url = fleet_database(data, database_url)
    if database_url is not None:
        _leave(_psql(logged_in(database_url, password_file), query or []))
    folder = chosen_folder(data, run_file)
    with joined(folder, "sql") as running:
        status = _psql(running.database_urls["console"], query or [])
    _leave(status)


def _psql(url: str, queries: Sequence[str]) -> int:
    """Run psql to its end and return its exit status."""
    # The role may not write, but a database that was set up by hand may lack the role.
    options = "-c default_transaction_read_only=on -c statement_timeout=30s"
    arguments = [
        _program(),
        "--no-psqlrc",
        "--set=ON_ERROR_STOP=1",
        "--pset=null=-",
    ]
    if queries:
        arguments += ["--pset=pager=off", "--pset=footer=off"]
        arguments += [f"--command={query}" for query in queries]
    elif sys.stdin.isatty():
        echo(_WELCOME, err=True)
    else:
        arguments += ["--pset=pager=off"]
    environment = {"PGOPTIONS": options, "PGAPPNAME": "zerofleet sql"}
    return _run(arguments, url, environment)


def _program() -> str:
    """Return psql of the newest Postgres here, or one that came without a server."""
    import shutil

    from zerofleet.local.postgres_cluster import find_programs

    try:
        return str(find_programs().folder / "psql")
    except ConfigError:
        alone = shutil.which("psql")
        if alone is None:
            raise
        return alone


def _run(arguments: list[str], url: str, environment: dict[str, str]) -> int:
    from zerofleet.cli.terminal import interrupts_ignored
    from zerofleet.database import without_password

    target, password = without_password(url)
    with _password_file(password) as path, interrupts_ignored():
        whole = {**os.environ, **environment}
        if path is not None:
            whole["PGPASSFILE"] = str(path)
            whole.pop("PGPASSWORD", None)  # libpq would prefer it
        completed = subprocess.run([*arguments, f"--dbname={target}"], env=whole, check=False)
    return completed.returncode


@contextlib.contextmanager
def _password_file(password: str | None) -> Generator[Path | None]:
    """Write a password file in libpq's format, valid for any server, while psql runs."""
    import tempfile

    if password is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="zerofleet-") as folder:  # only we can enter it
        path = Path(folder) / "password"
        path.touch(0o600)
        path.write_text("*:*:*:*:" + password.replace("\\", "\\\\").replace(":", "\\:") + "\n")
        yield path


def _leave(status: int) -> None:
    raise typer.Exit(status)
