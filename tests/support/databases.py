"""Fresh databases for tests: copies of one that was migrated once."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Generator
from urllib.parse import urlsplit, urlunsplit

import psycopg2

from zerofleet.database import migrate

GAMES_STORED_TWICE = """
    SELECT count(*) FROM games JOIN LATERAL (
        SELECT string_agg(root_value || visit_counts::text, ' ' ORDER BY ply) AS searches
        FROM positions WHERE positions.game_uid = games.game_uid
    ) AS played ON true
    WHERE kind = 'selfplay'
    GROUP BY moves, started_at, finished_at, searches HAVING count(*) > 1
"""
"""A query that gives a row for each game that is stored under two uids.

Short games that began and ended at the same instant may have the same moves; the same search of
every ply, noise and all, they cannot have.
"""

_PLAYER = "[1-9][0-9]*(/(fp32|int8|fp16))?|random|search|gnugo:([1-9]|10)"
_PROGRAM = "(uci|gtp):[!-:<-~]([ -:<-~]{0,193}[!-:<-~])?"


def _allow_players(pattern: str) -> tuple[str, ...]:
    return tuple(
        f"ALTER TABLE matches DROP CONSTRAINT matches_{column}_check, "
        f"ADD CONSTRAINT matches_{column}_check "
        f"CHECK ({column} COLLATE \"C\" ~ '^({pattern})$')"
        for column in ("player", "opponent")
    )


# CASCADE also drops the functions, views and indexes that use the object.
_UNDO: dict[int, tuple[str, ...]] = {
    1001: ("ALTER TABLE train_metrics DROP COLUMN soft_policy_loss CASCADE",),
    1002: ("ALTER TABLE games DROP COLUMN opening_plies CASCADE",),
    1003: tuple(
        f"ALTER TABLE position_needs DROP COLUMN {column} CASCADE"
        for column in ("limit_since", "limit_warning", "limit_warned_at")
    ),
    1004: ("DROP TABLE trainer_progress CASCADE",),
    1005: ("DROP INDEX games_conflict_at",),
    1006: (
        "DROP VIEW rejected_games",
        "ALTER TABLE unreadable_games RENAME TO rejected_games",
        "ALTER TABLE refused_games RENAME TO games_conflict",
        "ALTER INDEX refused_games_at RENAME TO games_conflict_at",
    ),
    1007: (
        "ALTER TABLE games DROP COLUMN start CASCADE",
        "ALTER TABLE matches DROP COLUMN openings CASCADE",
        "CREATE UNIQUE INDEX matches_once ON matches (run, kind, player, opponent) "
        "WHERE kind <> 'gate'",
        "ALTER TYPE game_record DROP ATTRIBUTE start CASCADE",
    ),
    1008: _allow_players(_PLAYER),
    1009: ("ALTER TABLE exams DROP COLUMN groups CASCADE",),  # the kinds of exams stay allowed
    1010: ("ALTER TABLE train_metrics DROP COLUMN own_losses CASCADE",),
    1011: (
        "DROP TABLE origins CASCADE",
        "DROP INDEX games_window",
        "CREATE INDEX games_window ON games (run, tx) WHERE kind = 'selfplay'",
        "ALTER TABLE games DROP CONSTRAINT games_kind_check, "
        "ADD CONSTRAINT games_kind_check CHECK (kind IN ('selfplay', 'match'))",
    ),
    1012: _allow_players(f"{_PLAYER}|{_PROGRAM}"),
    1013: ("DROP TABLE restarts CASCADE",),
    1014: (
        "ALTER TABLE matches DROP COLUMN rated CASCADE",
        "CREATE UNIQUE INDEX matches_once ON matches "
        "(run, kind, player, opponent, md5(coalesce(openings, ''))) WHERE kind <> 'gate'",
    ),
    1015: (
        "ALTER TABLE games DROP COLUMN restarted CASCADE",
        "ALTER TYPE game_record DROP ATTRIBUTE restarted CASCADE",
    ),
}


def undo_migrations(revision: int) -> list[str]:
    """Return statements that give a migrated database the tables of an earlier revision."""
    return [
        *(each for of in sorted(_UNDO, reverse=True) if of > revision for each in _UNDO[of]),
        f"UPDATE alembic_version SET version_num = '{revision}'",
        "UPDATE definitions SET digest = 'other'",
    ]


class DatabaseTemplate:
    """A migrated database that others are copied from, in about 20 ms each.

    Args:
        admin_url: of any database on the server, as a superuser.
        owner_url: of a database that need not exist, as the role that owns it; its name becomes
            the template's.
    """

    def __init__(self, admin_url: str, owner_url: str) -> None:
        # Kept open: logging in costs as much as a copy.
        self._admin = psycopg2.connect(admin_url)
        self._admin.autocommit = True
        self._owner_url = owner_url
        self._numbers = itertools.count(1)
        parts = urlsplit(owner_url)
        self._template = parts.path.lstrip("/")
        self._owner = parts.username or ""
        self._do(f'CREATE DATABASE "{self._template}" OWNER "{self._owner}"')
        migrate(owner_url)

    @contextlib.contextmanager
    def copy(self) -> Generator[str]:
        """A fresh database while this is entered; its owner's URL."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        self._do(
            f'CREATE DATABASE "{name}" OWNER "{self._owner}" TEMPLATE "{self._template}" '
            "STRATEGY FILE_COPY"
        )
        try:
            yield urlunsplit(urlsplit(self._owner_url)._replace(path=f"/{name}"))
        finally:
            self._do(f'DROP DATABASE "{name}" WITH (FORCE)')

    def _do(self, statement: str) -> None:
        with self._admin.cursor() as cursor:
            cursor.execute(statement)
