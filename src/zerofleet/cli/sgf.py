"""``zerofleet sgf``: stored games as SGF files."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from zerofleet.cli.run_options import (
    DataOption,
    PasswordFile,
    RunFile,
    chosen_folder,
    fleet_database,
    fleet_settings,
    in_fleet,
    logged_in,
)
from zerofleet.cli.terminal import echo
from zerofleet.errors import ConfigError

if TYPE_CHECKING:
    from zerofleet.config import RunConfig
    from zerofleet.database.played_games import PlayedGame, PlayedGames

_MOST_GAMES = 1_000_000


def sgf(
    run_file: RunFile = None,
    game_uid: Annotated[UUID | None, typer.Argument(metavar="UID", help="UID of the game.")] = None,
    last: Annotated[
        int | None,
        typer.Option(min=1, max=_MOST_GAMES, help="The newest N games instead, newest first."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Write UID.sgf files there instead of to stdout.")
    ] = None,
    data: DataOption = None,
    database_url: Annotated[
        str | None, typer.Option(help="Any Postgres instead of a data folder's; needs RUN.toml.")
    ] = None,
    password_file: PasswordFile = None,
) -> None:
    """Write stored games of Go or Othello as SGF, with the search's values as comments.

    Games whose searches were dropped ([retention] of the run file) have no comments.

    For a stopped run, its database is started for the command. If ZEROFLEET_DATABASE_URL is set, as
    in the containers of a fleet, that Postgres is used.
    """
    from zerofleet.config import load_run
    from zerofleet.database.played_games import sgf_of_game
    from zerofleet.games.sgf import require_sgf

    if game_uid is None and run_file is not None and (uid := _as_uid(run_file)) is not None:
        run_file, game_uid = None, uid  # a lone UID belongs to the run of the other options
    if (game_uid is None) == (last is None):
        raise ConfigError("give a game's uid (of the table games) or --last N")
    if run_file is not None:
        require_sgf(load_run(run_file).game.name)
    database_url = fleet_database(data, database_url)
    url = None if database_url is None else logged_in(database_url, password_file)
    written = 0
    with _database(run_file, data, url) as (run, database):
        require_sgf(run.game.name)
        chosen = database.last_played(run.name, last or 1) if game_uid is None else [game_uid]
        for uid in chosen:
            try:
                text = sgf_of_game(run.name, _played(database, run.name, uid))
            except ValueError as error:  # the other games are still written
                echo(f"game {uid} is skipped, it cannot be read: {error}", err=True)
                continue
            written += 1
            if folder is None:
                echo(text, nl=False)
            else:
                _write(folder, uid, text)
    if folder is not None:
        from zerofleet.fleet.report import counted

        echo(f"{counted(written, 'game')} in {folder}", err=True)
    if game_uid is not None and not written:
        raise typer.Exit(1)


def _played(database: PlayedGames, run: str, game_uid: UUID) -> PlayedGame:
    played = database.played_game(run, game_uid)
    if played is None:
        raise ConfigError(
            f"the run '{run}' has no finished game {game_uid}: "
            "`zerofleet sgf --last 1` writes the newest"
        )
    return played


def _write(folder: Path, game_uid: UUID, text: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{game_uid}.sgf").write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"cannot write to --folder {folder}: {error.strerror}: give a folder, or a place "
            "where one may be made"
        ) from error


@contextlib.contextmanager
def _database(
    run_file: Path | None, data: Path | None, database_url: str | None
) -> Generator[tuple[RunConfig, PlayedGames]]:
    """Yield the run and its stored games."""
    from zerofleet.config import load_run
    from zerofleet.database.played_games import PlayedGames
    from zerofleet.local.stores import joined

    if database_url is not None:
        if run_file is None and not in_fleet(data):
            raise ConfigError("--database-url needs the run file too, for the name of the run")
        run = load_run(run_file or fleet_settings(None).run_file)
        with PlayedGames(database_url) as database:
            yield run, database
        return
    folder = chosen_folder(data, run_file)
    with (
        joined(folder, "sgf") as running,
        PlayedGames(running.database_urls["console"]) as database,
    ):
        yield folder.read_run(), database


def _as_uid(text: Path) -> UUID | None:
    try:
        return UUID(str(text))
    except ValueError:
        return None
