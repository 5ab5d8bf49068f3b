"""Fill Postgres with many games in a short time: copy a few played games to days in the past."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import psycopg2.extensions

PLAYED = "played"
"""Name of the worker whose games are copied; they must be stored before."""

# The uid of a copy begins with the 48 bits of its time, which are the first 13 characters of the
# text. The rest is random.
_COPY_GAMES = """
CREATE TEMPORARY TABLE copies AS
SELECT
    g.game_uid AS source, at,
    %(first)s + 2 * floor(share * (%(last)s - %(first)s) / 2)::integer AS model,
    overlay(gen_random_uuid()::text PLACING left(first_game_uid(at)::text, 13) FROM 1)::uuid AS uid
FROM (SELECT *, row_number() OVER () AS number FROM games WHERE worker = %(played)s) AS g
CROSS JOIN generate_series(1, %(copies)s) AS copy
CROSS JOIN LATERAL (
    SELECT (
        (copy - 1) * (SELECT count(*) FROM games WHERE worker = %(played)s) + number - 0.5
    ) / (%(copies)s * (SELECT count(*) FROM games WHERE worker = %(played)s)) AS share
) AS s
CROSS JOIN LATERAL (SELECT %(day)s::timestamptz + interval '1 day' * share AS at) AS t;
INSERT INTO games (
    game_uid, run, kind, first_model, second_model, result, reason, length, worker, started_at,
    finished_at, moves, content_sha256, resign_threshold, plays_on, began_at, ingested_at,
    opening_plies
)
SELECT
    c.uid, g.run, g.kind, c.model, c.model, g.result, g.reason, g.length, 'copied',
    c.at, c.at, g.moves, g.content_sha256, g.resign_threshold, false, c.at, c.at,
    g.opening_plies
FROM copies AS c JOIN games AS g ON g.game_uid = c.source ORDER BY c.uid;
"""


@dataclass(frozen=True, slots=True)
class Copying:
    """How the games of a day are copied.

    Args:
        copies: number of copies of each played game.
        models: first and last version of the models that play on this day. Only every second
            version plays, from the first on.
        searches: whether to copy the positions with their searches, too.
    """

    copies: int
    models: tuple[int, int] = (1, 1)
    searches: bool = True


def copy_day(cursor: psycopg2.extensions.cursor, day: datetime, copying: Copying) -> None:
    """Fill a day with copies of the played games, spread evenly over the day.

    Their searches go into a new partition of ``positions`` for this day.

    Args:
        cursor: cursor of the database's owner, in autocommit mode.
        day: the day's beginning, with a time zone; the day must lie before today.
        copying: how many copies to make, and what to copy.

    Raises:
        psycopg2.Error: Postgres is down, or the day already has a partition.
    """
    first, last = copying.models
    cursor.execute(
        _COPY_GAMES,
        {"played": PLAYED, "day": day, "copies": copying.copies, "first": first, "last": last},
    )
    if copying.searches:
        partition = f"positions_{day:%Y%m%d}_00"
        _make_partition(cursor, partition, day)
        replaced = {"game_uid": "c.uid", "model_version": "c.model"}
        cursor.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = 'positions'::regclass "
            "AND attnum > 0 ORDER BY attnum"
        )
        columns = ", ".join(replaced.get(name, f"p.{name}") for (name,) in cursor.fetchall())
        cursor.execute(
            f"INSERT INTO positions SELECT {columns} FROM copies AS c JOIN positions AS p "
            "ON p.game_uid = c.source ORDER BY c.uid, p.ply"
        )
        cursor.execute(f"VACUUM ANALYZE {partition}")
    cursor.execute("DROP TABLE copies")


def _make_partition(cursor: psycopg2.extensions.cursor, name: str, day: datetime) -> None:
    until = day + timedelta(days=1)
    cursor.execute("SELECT first_game_uid(%s), first_game_uid(%s)", (day, until))
    [(first, last)] = cursor.fetchall()
    cursor.execute(
        f"CREATE TABLE {name} PARTITION OF positions FOR VALUES FROM ('{first}') TO ('{last}')"
    )
    cursor.execute("INSERT INTO position_partitions VALUES (%s, %s, %s)", (name, day, until))
