"""``zerofleet export``: the games of a run as files for other programs."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zerofleet.cli.game_files import DatabaseUrl, run_database
from zerofleet.cli.run_options import (
    DataOption,
    PasswordFile,
    RunFile,
    fleet_database,
    logged_in,
)
from zerofleet.cli.terminal import echo, interruptible
from zerofleet.errors import ConfigError

if TYPE_CHECKING:
    from zerofleet.cli.export_files import Exported


class Format(StrEnum):
    """A file format for games."""

    PARQUET = "parquet"
    NPZ = "npz"
    CSV = "csv"
    SGF = "sgf"
    PGN = "pgn"


def _time(value: str | None) -> datetime | None:
    """Return the value of ``--since``, in UTC unless it has an offset."""
    if value is None:
        return None
    try:
        at = datetime.fromisoformat(value)
    except ValueError as error:
        raise ConfigError(
            f"--since {value}: give a date or a time, such as 2026-11-28 or 2026-11-28T15:30"
        ) from error
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def export(
    run_file: RunFile = None,
    file_format: Annotated[Format, typer.Option("--format", help="File format.")] = Format.PARQUET,
    folder: Annotated[
        Path | None, typer.Option(help="New or empty folder for the files [./NAME-FORMAT].")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Only games stored since this time, in UTC: 2026-11-28 or 2026-11-28T15:30.",
        ),
    ] = None,
    model: Annotated[
        int | None, typer.Option(metavar="VERSION", help="Only games of this model version.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="At most N games, the newest ones.")
    ] = None,
    planes: Annotated[
        bool,
        typer.Option(
            "--planes",
            help="Also write the training positions: input planes and targets. Parquet and npz.",
        ),
    ] = False,
    data: DataOption = None,
    database_url: DatabaseUrl = None,
    password_file: PasswordFile = None,
) -> None:
    """Write the games of a run, and their searches, into files for other programs.

    parquet and csv: a folder for games and one for searches. npz: both in each file. sgf and pgn:
    games, with the values of the searches as comments. A large export has several files. The files
    appear in the folder when all are complete.

    For a stopped run, the command starts the database while it runs. If ZEROFLEET_DATABASE_URL is
    set, as in the containers of a fleet, the command uses that Postgres.
    """
    from zerofleet.cli.export_files import export_games, require_packages
    from zerofleet.database.exported_games import ExportedGames, GameChoice

    name = file_format.value
    if planes and name not in ("parquet", "npz"):
        raise ConfigError(f"--planes needs --format parquet or npz, not {name}")
    choice = GameChoice(_time(since), model, limit)
    require_packages(name)
    given = fleet_database(data, database_url)
    url = None if given is None else logged_in(given, password_file)
    with (
        interruptible(),
        run_database(run_file, data, url, "export") as (run, address),
        ExportedGames(address) as database,
    ):
        target = folder or Path(f"{run.name}-{name}")
        done = export_games(database, run, target, name, choice, planes=planes)
    for line in done.skipped:
        echo(line, err=True)
    echo(_summary(done, target, planes=planes), err=True)


def _summary(done: Exported, folder: Path, *, planes: bool) -> str:
    from zerofleet.fleet.report import counted

    counts = [counted(done.games, "game")]
    if done.searches:
        counts.append(f"{done.searches:,} searches" if done.searches != 1 else "1 search")
    if planes:
        counts.append(counted(done.positions, "training position"))
    return f"{', '.join(counts)} in {folder}"
