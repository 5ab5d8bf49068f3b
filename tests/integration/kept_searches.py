"""Helpers for searches in partitions by day: read the tables, and make past days."""

import dataclasses
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from tests.support.random_records import target_record
from zerofleet.database import Database
from zerofleet.records import GameRecord, game_uid_of

# The tests use this clock. The database is a copy of one that may be older than midnight.
NOW = datetime.now(UTC)
DAY = timedelta(days=1)
NUMBERS = count(1)


def ask(database: Database, statement: str) -> list[tuple[Any, ...]]:
    """Return the rows of any statement."""
    with database._transaction() as connection:
        result = connection.execution_options(no_parameters=True).exec_driver_sql(statement)
        return [tuple(row) for row in result] if result.returns_rows else []


def new_record(began_at: datetime) -> GameRecord:
    """Return a game that began at this time, with a uid of its own."""
    number = next(NUMBERS)
    return dataclasses.replace(target_record(number), game_uid=game_uid_of(began_at, number))


def make_day(database: Database, name: str, ago: int) -> None:
    """Make the partition of the day this many days ago, as it was made then."""
    today = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
    since, until = today - ago * DAY, today - (ago - 1) * DAY
    ask(
        database,
        f"DO $$ BEGIN EXECUTE format('CREATE TABLE {name} PARTITION OF positions FOR VALUES "
        f"FROM (%L) TO (%L)', first_game_uid('{since}'), first_game_uid('{until}')); END $$",
    )
    ask(database, f"INSERT INTO position_partitions VALUES ('{name}', '{since}', '{until}')")


def drop_partitions(database: Database) -> None:
    """Drop all partitions, as after a long pause: the existing ones would be for past days."""
    for (name,) in ask(database, "SELECT partition FROM position_partitions"):
        ask(database, f"DROP TABLE {name}")
    ask(database, "DELETE FROM position_partitions")
    ask(database, "DELETE FROM partition_tries")
