"""Stored games as files: what the commands ``sgf`` and ``pgn`` share."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from zerofleet.cli.run_options import (
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
    from zerofleet.database.played_games import PlayedGame, PlayedGames, RecordFormat

_MOST_GAMES = 1_000_000


GameUid = Annotated[UUID | None, typer.Argument(metavar="UID", help="UID of the game.")]
Last = Annotated[
    int | None,
    typer.Option(min=1, max=_MOST_GAMES, help="The newest N games instead, newest first."),
]
Folder = Annotated[
    Path | None, typer.Option(help="Write a file for each game there instead of to stdout.")
]
DatabaseUrl = Annotated[
    str | None, typer.Option(help="Any Postgres instead of a data folder's; needs RUN.toml.")
]


@dataclass(frozen=True, slots=True)
class GameSource:
    """Where the games are, as the options say."""

    run_file: Path | None
    data: Path | None
    database_url: str | None
    password_file: Path | None


def write_games(
    file: RecordFormat,
    source: GameSource,
    game_uid: UUID | None,
    last: int | None,
    folder: Path | None,
) -> None:
    """Write games in a format to stdout or to files."""
    from zerofleet.config import load_run
    from zerofleet.database.played_games import PlayedGames

    run_file = source.run_file
    if game_uid is None and run_file is not None and (uid := _as_uid(run_file)) is not None:
        run_file, game_uid = None, uid  # a lone UID belongs to the run of the other options
    if (game_uid is None) == (last is None):
        raise ConfigError("give a game's uid (of the table games) or --last N")
    if run_file is not None:
        file.require(load_run(run_file).game.name)
    database_url = fleet_database(source.data, source.database_url)
    url = None if database_url is None else logged_in(database_url, source.password_file)
    written = 0
    with (
        run_database(run_file, source.data, url, file.suffix) as (run, address),
        PlayedGames(address) as database,
    ):
        file.require(run.game.name)
        chosen = database.last_played(run.name, last or 1) if game_uid is None else [game_uid]
        for uid in chosen:
            try:
                text = file.text_of(run.name, _played(database, run.name, uid, file.suffix))
            except ValueError as error:  # the other games are still written
                echo(f"game {uid} is skipped, it cannot be read: {error}", err=True)
                continue
            written += 1
            if folder is None:
                echo(text, nl=False)
            else:
                _write(folder, f"{uid}.{file.suffix}", text)
    if folder is not None:
        from zerofleet.fleet.report import counted

        echo(f"{counted(written, 'game')} in {folder}", err=True)
    if game_uid is not None and not written:
        raise typer.Exit(1)


def _played(database: PlayedGames, run: str, game_uid: UUID, command: str) -> PlayedGame:
    played = database.played_game(run, game_uid)
    if played is None:
        raise ConfigError(
            f"the run '{run}' has no finished game {game_uid}: "
            f"`zerofleet {command} --last 1` writes the newest"
        )
    return played


def _write(folder: Path, name: str, text: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"cannot write to --folder {folder}: {error.strerror}: give a folder, or a place "
            "where one may be made"
        ) from error


@contextlib.contextmanager
def run_database(
    run_file: Path | None, data: Path | None, database_url: str | None, command: str
) -> Generator[tuple[RunConfig, str]]:
    """Yield the run and the URL of its database, started for the time if the run is stopped."""
    from zerofleet.config import load_run
    from zerofleet.local.stores import joined

    if database_url is not None:
        if run_file is None and not in_fleet(data):
            raise ConfigError("--database-url needs the run file too, for the name of the run")
        yield load_run(run_file or fleet_settings(None).run_file), database_url
        return
    folder = chosen_folder(data, run_file)
    with joined(folder, command) as running:
        yield folder.read_run(), running.database_urls["console"]


def _as_uid(text: Path) -> UUID | None:
    try:
        return UUID(str(text))
    except ValueError:
        return None
