"""Queries that visitors write: one at a time each, read-only, bounded in time, rows and bytes.

Postgres reads a visitor's text as one query that answers with rows, because it is opened as a
cursor: several statements, or one that ends the transaction, are refused by the server itself.
"""

from __future__ import annotations

import asyncio
import csv
import io
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg2
import psycopg2.extensions
from psycopg2 import errorcodes

from zerofleet.database.connection import connect
from zerofleet.errors import StoreUnavailableError, ZerofleetError

MOST_SECONDS = 10
MOST_ROWS = 10_000
MOST_BYTES = 16_000_000
MOST_COST = 3_000_000  # in the planner's units: more is not done in MOST_SECONDS
_AT_ONCE = 3  # of all visitors; the others wait
_BATCH_BYTES = 4_000_000

_NUMBERS = frozenset({20, 21, 23, 700, 701, 1700})  # integers, reals and numeric

_PREPARE = """
SELECT rolsuper, set_config('zerofleet.query', %s, true)
FROM pg_roles WHERE rolname = session_user
"""
_OPEN = """
DO $$ DECLARE answer refcursor := 'answer';
BEGIN OPEN answer FOR EXECUTE current_setting('zerofleet.query'); END $$
"""
# The plan of a query whose cursor is open: its text is one statement. SHOW and EXPLAIN have none.
_COST = """
DO $$ DECLARE plan refcursor; explained json; cost text := '';
BEGIN
    BEGIN
        OPEN plan FOR EXECUTE
            'EXPLAIN (FORMAT JSON) ' || current_setting('zerofleet.query');
        FETCH plan INTO explained;
        cost := explained #>> '{0,Plan,Total Cost}';
    EXCEPTION WHEN syntax_error OR insufficient_privilege THEN NULL;  -- the query says so itself
    END;
    PERFORM set_config('zerofleet.cost', cost, true);
END $$
"""
# Every value as Postgres writes it, which is what psql shows.
_AS_TEXT = psycopg2.extensions.new_type(
    tuple(psycopg2.extensions.string_types), "AS_TEXT", lambda value, cursor: value
)


class QueryFaultError(ZerofleetError):
    """A visitor's query that gave no answer; the message is for the visitor.

    Args:
        message: what was wrong.
        place: the character of the query where, counted from 0; None: nowhere in particular.
    """

    def __init__(self, message: str, place: int | None = None) -> None:
        super().__init__(message)
        self.place = place


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """The rows of a query, every value as Postgres writes it."""

    columns: Sequence[str]
    are_numbers: Sequence[bool]
    """Of each column, whether its values are numbers."""
    rows: Sequence[tuple[str | None, ...]]
    cut: str
    """Why there are no more rows; empty: these are all."""
    seconds: float

    def as_csv(self) -> str:
        """With a line of names; null is empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return text.getvalue()


class VisitorQueries:
    """Runs them in threads and connections of their own, so that no page waits for a query.

    Args:
        url: of the database.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._threads = ThreadPoolExecutor(_AT_ONCE, "queries")

    async def run(self, query: str) -> QueryAnswer:
        """Ask Postgres.

        Raises:
            QueryFaultError: the query is wrong, writes, or takes too long.
            StoreUnavailableError: Postgres does not answer.
        """
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, run_query, self._url, query
        )

    def close(self) -> None:
        """Take no more; those that run end by their own limits."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def run_query(url: str, query: str) -> QueryAnswer:
    """Ask Postgres; a connection for each query, because a query can change its settings.

    Raises:
        QueryFaultError: the query is wrong, writes, or takes too long.
        StoreUnavailableError: Postgres does not answer.
    """
    if not query.strip() or "\0" in query:
        raise QueryFaultError("write a query that answers with rows, such as SELECT * FROM runs")
    began = time.monotonic()
    try:
        with closing(connect(url)) as connection:
            connection.set_session(readonly=True)
            psycopg2.extensions.register_type(_AS_TEXT, connection)
            return _ask(connection.cursor(), query, began)
    except psycopg2.Error as error:
        if error.pgcode is None or error.pgcode.startswith(("08", "28", "53", "57P")):
            raise StoreUnavailableError(f"Postgres does not answer: {error}") from error
        raise _fault(error) from error


def _ask(cursor: psycopg2.extensions.cursor, query: str, began: float) -> QueryAnswer:
    cursor.execute(_PREPARE, (query,))
    if cursor.fetchall()[0][0] == "t":
        raise QueryFaultError(
            "the dashboard is logged in as a superuser, who may read the server's files: "
            "let it log in as zerofleet_console"
        )
    _limit(cursor, began)
    cursor.execute(_OPEN)
    _check_cost(cursor, query)
    rows: list[tuple[str | None, ...]] = []
    size, batch, cut = 0, 1, ""
    while not cut:
        _limit(cursor, began)
        cursor.execute(f"FETCH {batch} FROM answer")
        found = cursor.fetchall()
        rows += found
        size += sum(len(value) for row in found for value in row if value is not None)
        if len(found) < batch:
            break
        if len(rows) > MOST_ROWS:
            cut = f"the first {MOST_ROWS:,} rows"
        elif size > MOST_BYTES:
            cut = f"the first {len(rows):,} rows, which are more than {MOST_BYTES // 1_000_000} MB"
        # More at a time, while that is a bearable amount.
        mean = size / len(rows)
        batch = max(1, min(4 * batch, MOST_ROWS + 1 - len(rows), int(_BATCH_BYTES / (mean + 1))))
    described: Sequence[Any] = cursor.description or ()
    return QueryAnswer(
        [column.name for column in described],
        [column.type_code in _NUMBERS for column in described],
        rows[:MOST_ROWS],
        cut,
        time.monotonic() - began,
    )


def _check_cost(cursor: psycopg2.extensions.cursor, query: str) -> None:
    """Refuse a query, opened and not begun, that Postgres cannot do in time or memory.

    Raises:
        QueryFaultError: its plan costs too much, or it would run another query to explain it.
    """
    cursor.execute(_COST)
    cursor.execute("SELECT current_setting('zerofleet.cost')")
    cost = str(cursor.fetchall()[0][0])
    if not cost:
        if re.search(r"\banaly[sz]e\b", query, re.IGNORECASE):
            raise QueryFaultError("EXPLAIN ANALYZE runs the query. Leave ANALYZE out")
    elif float(cost) > MOST_COST:
        raise QueryFaultError(
            f"Postgres estimates the cost of this query at {float(cost):,.0f}, and at most "
            f"{MOST_COST:,} is run here. Ask for less, such as the games of one model or of one "
            "day; `zerofleet sql` has no such limit"
        )


def _limit(cursor: psycopg2.extensions.cursor, began: float) -> None:
    """Set again before each statement, because the query itself can change it."""
    left = max(1, round(1000 * (began + MOST_SECONDS - time.monotonic())))
    cursor.execute(f"SET LOCAL statement_timeout = {left}")


def _fault(error: psycopg2.Error) -> QueryFaultError:
    """In the words of Postgres, but for what only our way of asking brings about."""
    if error.pgcode == errorcodes.QUERY_CANCELED:
        return QueryFaultError(
            f"it took longer than {MOST_SECONDS} s and was ended: ask for less, such as the games "
            "of one model or of one day"
        )
    if error.pgcode == errorcodes.INVALID_CURSOR_DEFINITION:
        return QueryFaultError(
            "only one query at a time can be asked, and only one that answers with rows: nothing "
            "is written here"
        )
    said = error.diag
    parts = [said.message_primary or str(error).strip(), said.message_detail, said.message_hint]
    position = said.internal_position
    return QueryFaultError(
        ". ".join(part for part in parts if part), int(position) - 1 if position else None
    )
