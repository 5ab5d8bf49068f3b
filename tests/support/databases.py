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

NAMES_BEFORE_1006 = (
    "DROP VIEW rejected_games",
    "ALTER TABLE unreadable_games RENAME TO rejected_games",
    "ALTER TABLE refused_games RENAME TO games_conflict",
    "ALTER INDEX refused_games_at RENAME TO games_conflict_at",
)
"""Statements that give tables the names that they had before revision 1006."""


NO_STARTS_BEFORE_1007 = (
    "ALTER TABLE games DROP COLUMN start CASCADE",
    "ALTER TABLE matches DROP COLUMN openings CASCADE",  # and of the index
    "CREATE UNIQUE INDEX matches_once ON matches (run, kind, player, opponent) "
    "WHERE kind <> 'gate'",
    "ALTER TYPE game_record DROP ATTRIBUTE start CASCADE",
)
"""Statements that take away what revision 1007 added."""

_PLAYER_BEFORE_1008 = "^([1-9][0-9]*(/(fp32|int8|fp16))?|random|search|gnugo:([1-9]|10))$"
NO_ENGINES_BEFORE_1008 = tuple(
    f"ALTER TABLE matches DROP CONSTRAINT matches_{column}_check, "
    f"ADD CONSTRAINT matches_{column}_check CHECK ({column} ~ '{_PLAYER_BEFORE_1008}')"
    for column in ("player", "opponent")
)
"""Statements that forbid the players that revision 1008 allows."""
NO_EXAM_GROUPS_BEFORE_1009 = ("ALTER TABLE exams DROP COLUMN groups CASCADE",)
"""Statements that take away what revision 1009 added, except the kinds that it allows."""
NO_OWN_LOSSES_BEFORE_1010 = ("ALTER TABLE train_metrics DROP COLUMN own_losses CASCADE",)
"""Statements that take away what revision 1010 added."""
NO_GIVEN_GAMES_BEFORE_1011 = (
    "DROP TABLE origins CASCADE",  # and the functions that read it
    "DROP INDEX games_window",
    "CREATE INDEX games_window ON games (run, tx) WHERE kind = 'selfplay'",
    "ALTER TABLE games DROP CONSTRAINT games_kind_check, "
    "ADD CONSTRAINT games_kind_check CHECK (kind IN ('selfplay', 'match'))",
)
"""Statements that take away what revision 1011 added."""
NO_CLASSES_BEFORE_1012 = tuple(
    f"ALTER TABLE matches DROP CONSTRAINT matches_{column}_check, "
    f'ADD CONSTRAINT matches_{column}_check CHECK ({column} COLLATE "C" ~ '
    "'^([1-9][0-9]*(/(fp32|int8|fp16))?|random|search|gnugo:([1-9]|10)|(uci|gtp):[!-:<-~]"
    "([ -:<-~]{0,193}[!-:<-~])?)$')"
    for column in ("player", "opponent")
)
"""Statements that forbid the players that revision 1012 allows."""
NO_RESTARTS_BEFORE_1013 = ("DROP TABLE restarts CASCADE",)  # and the function that reads it
"""Statements that take away what revision 1013 added."""
NO_MATCH_SIMULATIONS_BEFORE_1014 = (
    "ALTER TABLE matches DROP COLUMN rated CASCADE",  # and the index and the views with it
    "CREATE UNIQUE INDEX matches_once ON matches "
    "(run, kind, player, opponent, md5(coalesce(openings, ''))) WHERE kind <> 'gate'",
)
"""Statements that take away what revision 1014 added."""


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
