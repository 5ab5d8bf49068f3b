"""``zerofleet pgn``: stored games as PGN files."""

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


def pgn(
    run_file: RunFile = None,
    game_uid: GameUid = None,
    last: Last = None,
    folder: Folder = None,
    data: DataOption = None,
    database_url: DatabaseUrl = None,
    password_file: PasswordFile = None,
) -> None:
    """Write stored games of chess as PGN, with the search's values as comments.

    The comments have the form that lichess uses, in pawns from White's side: [%eval 0.35].

    Games whose searches were dropped ([retention] of the run file) have no comments.
    """
    from zerofleet.database.played_games import PGN

    source = GameSource(run_file, data, database_url, password_file)
    write_games(PGN, source, game_uid, last, folder)
