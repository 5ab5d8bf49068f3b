"""``zerofleet sgf``: stored games as SGF files."""

from __future__ import annotations

from zerofleet.cli.game_files import (
    DatabaseUrl,
    Folder,
    GameSource,
    GameUid,
    Last,
    write_games,
)
from zerofleet.cli.run_options import DataOption, PasswordFile, RunFile


def sgf(
    run_file: RunFile = None,
    game_uid: GameUid = None,
    last: Last = None,
    folder: Folder = None,
    data: DataOption = None,
    database_url: DatabaseUrl = None,
    password_file: PasswordFile = None,
) -> None:
    """Write stored games of Go or Othello as SGF, with the search's values as comments.

    Games whose searches were dropped ([retention] of the run file) have no comments.

    For a stopped run, its database is started for the command. If ZEROFLEET_DATABASE_URL is set, as
    in the containers of a fleet, that Postgres is used.
    """
    from zerofleet.database.played_games import SGF

    source = GameSource(run_file, data, database_url, password_file)
    write_games(SGF, source, game_uid, last, folder)
