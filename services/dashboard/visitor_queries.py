"""Queries that visitors write: read-only, and bounded in time, rows, columns, values and bytes.

Postgres reads a visitor's text as one query that answers with rows, because it is opened as a
cursor: several statements, or one that ends the transaction, are refused by the server itself.
The rows of the cursor are counted and their values cut in Postgres, before anything is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import psycopg2
import psycopg2.extensions
from psycopg2 import errorcodes

from zerofleet.database.connection import connect
from zerofleet.errors import StoreUnavailableError, ZerofleetError
from zerofleet.services.dashboard.query_answers import KeptAnswer, KeptAnswers, QueryAnswer
from zerofleet.services.dashboard.visitors import Visitor

MOST_SECONDS = 10
MOST_ROWS = 10_000
MOST_COLUMNS = 200
MOST_CELLS = 200_000
MOST_CHARACTERS = 100_000  # of a value
MOST_BYTES = 16_000_000
MOST_COST = 3_000_000  # in the planner's units: more is not done in MOST_SECONDS
MOST_WAITING = 30
_AT_ONCE = 3  # of all visitors; the others wait
_BATCH_BYTES = 4_000_000
_CELL_BYTES = 24  # that a value counts for besides its own; a null, too
_CANCEL_SECONDS = 0.5  # between two attempts

_NUMBERS = frozenset({20, 21, 23, 700, 701, 1700})  # integers, reals and numeric

_PREPARE = """
SELECT rolsuper, set_config('zerofleet.query', %s, true)
FROM pg_roles WHERE rolname = session_user
"""
# An error may quote a value of any length.
_SHORT_ERRORS = """
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
    IF length(SQLERRM) + length(detail) < 4000 THEN RAISE; END IF;
    RAISE EXCEPTION USING ERRCODE = SQLSTATE, MESSAGE = left(SQLERRM, 1000) || ' ...';
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
_OPEN = f"""
DO $$ DECLARE answer refcursor := 'answer'; detail text;
BEGIN OPEN answer FOR EXECUTE current_setting('zerofleet.query');
{_SHORT_ERRORS} END $$
"""
# The next rows of the answer, each a JSON array of texts; opens them as another cursor.
_NEXT = """
DO $$
DECLARE
    detail text; answer refcursor := 'answer'; part refcursor := 'part'; parts text[] := '{{}}';
    room bigint := {room}; cells text[]; {variables}
BEGIN
    WHILE room > 0 AND cardinality(parts) < {rows} LOOP
        FETCH answer INTO {names};
        EXIT WHEN NOT FOUND;
        cells := ARRAY[{cells}];
        room := room - {overhead} - octet_length(array_to_string(cells, ''));
        parts := parts || to_json(cells)::text;
    END LOOP;
    OPEN part FOR SELECT unnest(parts);
{errors} END $$
"""
# A text variable takes a value as its type writes it, unless the type has a function that makes
# text: these keep their own type and are written by format().
_OWN_TYPES = {
    16: "boolean",
    18: '"char"',
    650: "cidr",
    869: "inet",
    1042: "bpchar",
}


class QueryFaultError(ZerofleetError):
    """A visitor's query that gave no answer; the message is for the visitor.

    Args:
        message: what was wrong.
        place: the character of the query where, counted from 0; None: nowhere in particular.
    """

    def __init__(self, message: str, place: int | None = None) -> None:
        super().__init__(message)
        self.place = place


@dataclass(eq=False, slots=True)
class _WaitingQuery:
    """A query of a visitor that runs or waits."""

    visitor: Visitor
    query: str
    number: int
    turn: asyncio.Event = field(default_factory=asyncio.Event)
    is_running: bool = False


class VisitorQueries:
    """Runs queries in threads and connections of their own, so that no page waits for a query.

    A visitor has one query running and one waiting. Of those that wait, the next one is of the
    token with the fewest queries running, so that many logins with one token are no advantage.

    Args:
        url: of the database.
    """

    def __init__(self, url: str) -> None:
        self.answers = KeptAnswers()
        """The answers that pages show."""
        self._url = url
        self._threads = ThreadPoolExecutor(_AT_ONCE, "queries")
        self._asked: list[_WaitingQuery] = []
        self._number = 0
        self._ending: set[asyncio.Task[None]] = set()

    async def run(self, query: str, visitor: Visitor) -> KeptAnswer:
        """Ask Postgres. If this is cancelled, the query is cancelled in Postgres, too.

        Raises:
            QueryFaultError: the query is wrong, writes, or takes too long; or too many wait.
            StoreUnavailableError: Postgres does not answer.
        """
        asked = self._enter(query, visitor)
        try:
            await asked.turn.wait()
        except BaseException:
            self._leave(asked)
            raise
        running = QueryRun(self._url, query)
        done = asyncio.get_running_loop().run_in_executor(self._threads, _measured, running)
        done.add_done_callback(lambda _: self._leave(asked))
        try:
            answer, starts, num_bytes = await asyncio.shield(done)
        except asyncio.CancelledError:
            ending = asyncio.create_task(self._end(running, done))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            raise
        return self.answers.keep(answer, starts, num_bytes, visitor)

    def close(self) -> None:
        """Take no more; those that run end by their own limits."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _enter(self, query: str, visitor: Visitor) -> _WaitingQuery:
        if sum(each.visitor is visitor for each in self._asked) > 1:
            raise QueryFaultError(
                "a login has one query running and one waiting. Wait for those of your other pages"
            )
        if sum(not each.is_running for each in self._asked) >= MOST_WAITING:
            raise QueryFaultError(
                f"{MOST_WAITING} queries are waiting already. Try again in a minute"
            )
        self._number += 1
        asked = _WaitingQuery(visitor, query, self._number)
        self._asked.append(asked)
        self._start_next()
        return asked

    def _leave(self, asked: _WaitingQuery) -> None:
        self._asked.remove(asked)
        self._start_next()

    def _start_next(self) -> None:
        running = [each.visitor for each in self._asked if each.is_running]
        waiting = [
            each
            for each in self._asked
            if not each.is_running and not any(each.visitor is other for other in running)
        ]
        if len(running) >= _AT_ONCE or not waiting:
            return
        tokens = [visitor.token for visitor in running]
        chosen = min(waiting, key=lambda each: (tokens.count(each.visitor.token), each.number))
        chosen.is_running = True
        chosen.turn.set()
        self._start_next()

    async def _end(self, running: QueryRun, done: asyncio.Future[Any]) -> None:
        """Cancel a query until it has ended: between two statements Postgres ignores it."""
        while not done.done():
            await asyncio.to_thread(running.cancel)
            await asyncio.wait({done}, timeout=_CANCEL_SECONDS)
        with contextlib.suppress(ZerofleetError):
            done.result()  # nobody reads it


def _measured(running: QueryRun) -> tuple[QueryAnswer, Sequence[int], int]:
    """Run a query, and measure its answer in the same thread."""
    answer = running.answer()
    return answer, answer.grid_starts(), answer.num_bytes()


def run_query(url: str, query: str) -> QueryAnswer:
    """Ask Postgres, in this thread; see ``QueryRun``."""
    return QueryRun(url, query).answer()


class QueryRun:
    """One query, with a connection of its own, because a query can change its settings.

    Args:
        url: of the database.
        query: the visitor's text.
    """

    def __init__(self, url: str, query: str) -> None:
        self._url = url
        self._query = query
        self._lock = threading.Lock()
        self._connection: psycopg2.extensions.connection | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        """End the query, from another thread; a statement that runs in Postgres, too."""
        with self._lock:
            self._is_cancelled = True
            if self._connection is not None:
                with contextlib.suppress(psycopg2.Error):
                    self._connection.cancel()

    def answer(self) -> QueryAnswer:
        """Ask Postgres.

        Raises:
            QueryFaultError: the query is wrong, writes, or takes too long.
            StoreUnavailableError: Postgres does not answer.
        """
        if not self._query.strip() or "\0" in self._query:
            raise QueryFaultError(
                "write a query that answers with rows, such as SELECT * FROM runs"
            )
        began = time.monotonic()
        try:
            with self._connected() as connection:
                connection.set_session(readonly=True)
                return self._ask(connection.cursor(), began)
        except psycopg2.Error as error:
            unavailable = ("08", "28", "53", "57P")
            ours = (errorcodes.OUT_OF_MEMORY, errorcodes.CONFIGURATION_LIMIT_EXCEEDED)
            if error.pgcode is None or (
                error.pgcode.startswith(unavailable) and error.pgcode not in ours
            ):
                raise StoreUnavailableError(f"Postgres does not answer: {error}") from error
            raise _fault(error) from error

    @contextlib.contextmanager
    def _connected(self) -> Generator[psycopg2.extensions.connection]:
        with closing(connect(self._url)) as connection:
            self._connection = connection
            try:
                yield connection
            finally:
                with self._lock:  # a connection that is being closed must not be cancelled
                    self._connection = None

    def _ask(self, cursor: psycopg2.extensions.cursor, began: float) -> QueryAnswer:
        cursor.execute(_PREPARE, (self._query,))
        if cursor.fetchall()[0][0]:
            raise QueryFaultError(
                "the dashboard is logged in as a superuser, who may read the server's files: "
                "let it log in as zerofleet_console"
            )
        self._limit(cursor, began)
        cursor.execute(_OPEN)
        _check_cost(cursor, self._query)
        cursor.execute("FETCH 0 FROM answer")
        described: Sequence[Any] = cursor.description or ()
        if not 1 <= len(described) <= MOST_COLUMNS:
            raise QueryFaultError(
                f"the answer has {len(described):,} columns: select 1 to {MOST_COLUMNS}"
            )
        longest = min(MOST_CHARACTERS, MOST_BYTES // len(described))
        most_rows = min(MOST_ROWS, MOST_CELLS // len(described))
        rows: list[list[str | None]] = []
        size, cut, is_all = 0, "", False
        while not (cut or is_all):
            self._limit(cursor, began)
            room = min(_BATCH_BYTES, MOST_BYTES - size)
            cursor.execute(_next_rows(described, longest, room, most_rows + 1 - len(rows)))
            cursor.execute("FETCH ALL FROM part")
            found = [row for (row,) in cursor.fetchall()]
            cursor.execute("CLOSE part")
            size += sum(len(row.encode()) for row in found) + _CELL_BYTES * len(found) * len(
                described
            )
            rows += [json.loads(row) for row in found]
            is_all = not found
            if len(rows) > most_rows:
                cut = f"the first {most_rows:,} rows"
            elif size >= MOST_BYTES:
                megabytes = MOST_BYTES // 1_000_000
                cut = f"the first {len(rows):,} rows, which are more than {megabytes} MB"
        del rows[most_rows:]
        is_cut = any(len(value) > longest for row in rows for value in row if value is not None)
        return QueryAnswer(
            [column.name for column in described],
            [column.type_code in _NUMBERS for column in described],
            rows,
            cut,
            longest if is_cut else 0,
            time.monotonic() - began,
        )

    def _limit(self, cursor: psycopg2.extensions.cursor, began: float) -> None:
        """Set the time left before each statement, because the query itself can change it."""
        if self._is_cancelled:
            raise QueryFaultError("its page was closed")
        left = max(1, round(1000 * (began + MOST_SECONDS - time.monotonic())))
        cursor.execute(f"SET LOCAL statement_timeout = {left}")


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


def _next_rows(columns: Sequence[Any], longest: int, room: int, rows: int) -> str:
    """Return the statement for the next rows; no value in it is a visitor's."""
    names = [f"c{place}" for place in range(len(columns))]
    types = [_OWN_TYPES.get(column.type_code, "text") for column in columns]
    return _NEXT.format(
        errors=_SHORT_ERRORS,
        room=room,
        rows=rows,
        overhead=_CELL_BYTES * len(names),
        variables=" ".join(f"{name} {kind};" for name, kind in zip(names, types, strict=True)),
        names=", ".join(names),
        cells=", ".join(
            _cut_text(name, longest)
            if kind == "text"
            else f"CASE WHEN {name} IS NOT NULL THEN format('%s', {name}) END"
            for name, kind in zip(names, types, strict=True)
        ),
    )


def _cut_text(name: str, longest: int) -> str:
    return (
        f"CASE WHEN length({name}) > {longest} THEN left({name}, {longest}) || "
        f"format(' ... (%s characters)', length({name})) ELSE {name} END"
    )


def _fault(error: psycopg2.Error) -> QueryFaultError:
    """Return what Postgres says, except where only our way of asking brings it about."""
    if error.pgcode in (errorcodes.OUT_OF_MEMORY, errorcodes.CONFIGURATION_LIMIT_EXCEEDED):
        return QueryFaultError(
            "it needs more memory or temporary files than a query may have: ask for less "
            f"({error.diag.message_primary})"
        )
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
