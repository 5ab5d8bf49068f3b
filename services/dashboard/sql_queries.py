"""Queries that visitors write: read-only, with limits of time, rows, columns, values and bytes.

Postgres opens a visitor's text as a cursor, and therefore accepts only one query that returns rows.
Several statements, or one that ends the transaction, are refused by the server itself. The rows of
the cursor are counted and their values cut in Postgres, before anything is sent.

An answer is kept while its page is open, and sent to the browser over HTTP. It never passes through
a page's socket: NiceGUI keeps each message until the browser has acknowledged it, while a response
over HTTP is only made as fast as the browser reads it.
"""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import psycopg2
import psycopg2.extensions
from fastapi import Request
from psycopg2 import errorcodes
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from zerofleet.database.connection import connect
from zerofleet.errors import StoreUnavailableError, ZerofleetError
from zerofleet.services.dashboard.toolkit import app
from zerofleet.services.dashboard.visitors import Visitor

CSV_PATH = "/sql/answer.csv"
ROWS_PATH = "/sql/rows"
GONE = "The rows of this answer are no longer kept. Run the query again."

_CELL_CHARACTERS = 1000  # characters of a cell in the grid; the CSV file has all
_MEMORY_OF_CELL = 80  # memory of a value in Python in addition to its characters
_GRID_ROWS = 1000  # rows in the browser at a time
_GRID_CELLS = 50_000
_GRID_CHARACTERS = 2_000_000
_PART_CHARACTERS = 200_000  # part of a CSV file that is made at once
_KEPT_BYTES = 100_000_000  # for the answers of all pages
_OF_A_VISITOR = 4

MOST_SECONDS = 10
MOST_ROWS = 10_000
MOST_COLUMNS = 200
MOST_CELLS = 200_000
MOST_CHARACTERS = 100_000  # characters of a value
MOST_BYTES = 16_000_000
MOST_COST = 3_000_000  # in the planner's units: higher costs are not done within MOST_SECONDS
MOST_WAITING = 30
_AT_ONCE = 3  # queries of all visitors; the others wait
_BATCH_BYTES = 4_000_000
_SIZE_OF_CELL = 24  # bytes that a value counts in addition to its own; the same for a null
_CANCEL_SECONDS = 0.5  # between two attempts

_LINE_COMMENTS = re.compile(r"\A(\s|--[^\r\n]*)*")  # and space, before a statement
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
# The plan of a query whose cursor is open, so its text is one statement. SHOW and EXPLAIN have no
# plan.
_COST = """
DO $$ DECLARE plan refcursor; explained json; cost text := '';
BEGIN
    BEGIN
        OPEN plan FOR EXECUTE
            'EXPLAIN (FORMAT JSON) ' || current_setting('zerofleet.query');
        FETCH plan INTO explained;
        cost := explained #>> '{0,Plan,Total Cost}';
    EXCEPTION WHEN syntax_error THEN NULL;
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
# A text variable takes a value in its type's own format, unless the type has a function that makes
# text: values of these types keep their type and are written by format().
_OWN_TYPES = {
    16: "boolean",
    18: '"char"',
    650: "cidr",
    869: "inet",
    1042: "bpchar",
}


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """The rows of a query, with every value in Postgres' text format."""

    columns: Sequence[str]
    are_numbers: Sequence[bool]
    """For each column, whether its values are numbers."""
    rows: Sequence[Sequence[str | None]]
    cut: str
    """Which rows these are, if the answer has more; empty if these are all."""
    longest: int
    """Longer values were cut to this many characters; 0 if none was."""
    seconds: float

    def csv_parts(self) -> Generator[str]:
        """Yield a CSV file with a line of column names, in parts; null is empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows:
            writer.writerow(row)
            if text.tell() >= _PART_CHARACTERS:
                yield text.getvalue()
                text.seek(0)
                text.truncate()
        yield text.getvalue()

    def num_bytes(self) -> int:
        """Return about how much memory the rows take."""
        values = sum(len(value) for row in self.rows for value in row if value is not None)
        return values + _MEMORY_OF_CELL * len(self.rows) * len(self.columns)

    def grid_starts(self) -> list[int]:
        """Return the index of the first row of each page of the grid."""
        most_rows = max(1, min(_GRID_ROWS, _GRID_CELLS // max(1, len(self.columns))))
        starts, characters = [0], 0
        for index, row in enumerate(self.rows):
            size = sum(min(len(value), _CELL_CHARACTERS) for value in row if value is not None)
            full = index - starts[-1] >= most_rows or characters + size > _GRID_CHARACTERS
            if full and index > starts[-1]:
                starts.append(index)
                characters = 0
            characters += size
        return starts

    def grid_json(self, start: int, end: int) -> str:
        """Return rows for AG Grid, with long values cut."""
        rows = [
            [None if value is None else value[:_CELL_CHARACTERS] for value in row]
            for row in self.rows[start:end]
        ]
        return json.dumps(rows, ensure_ascii=False)


@dataclass(eq=False, slots=True)
class KeptAnswer:
    """An answer under a key that only its page knows."""

    answer: QueryAnswer
    starts: Sequence[int]
    """Index of the first row of each page of the grid."""
    num_bytes: int
    visitor: Visitor
    key: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    is_downloading: bool = False
    """Whether its CSV file is being sent."""

    def grid_bounds(self, page: int) -> tuple[int, int]:
        """Return the first row of a page of the grid, and the end of its rows."""
        ends = [*self.starts[1:], len(self.answer.rows)]
        return self.starts[page], ends[page]


class KeptAnswers:
    """The answers that pages show. If they take too much memory, the oldest are dropped."""

    def __init__(self) -> None:
        self._kept: dict[str, KeptAnswer] = {}

    def keep(
        self, answer: QueryAnswer, starts: Sequence[int], num_bytes: int, visitor: Visitor
    ) -> KeptAnswer:
        """Keep an answer until ``forget``, or until newer ones need its memory."""
        kept = KeptAnswer(answer, starts, num_bytes, visitor)
        mine = [each for each in self._kept.values() if each.visitor is visitor]
        for each in mine[: max(0, len(mine) + 1 - _OF_A_VISITOR)]:
            self.forget(each)
        while self._kept and self.num_bytes() + num_bytes > _KEPT_BYTES:
            self.forget(next(iter(self._kept.values())))
        self._kept[kept.key] = kept
        return kept

    def forget(self, kept: KeptAnswer | None) -> None:
        """Drop an answer, if it is still kept."""
        if kept is not None:
            self._kept.pop(kept.key, None)

    def find(self, key: str, visitor: Visitor) -> KeptAnswer | None:
        """Return an answer of this visitor; None if it is not kept."""
        kept = self._kept.get(key)
        return kept if kept is not None and kept.visitor is visitor else None

    def num_bytes(self) -> int:
        """Return about how much memory all answers take."""
        return sum(each.num_bytes for each in self._kept.values())


def add_answer_routes(answers: Callable[[], KeptAnswers]) -> None:
    """Serve kept answers, each to its own visitor: as a CSV file, and by pages of the grid."""
    for path in (CSV_PATH, ROWS_PATH):
        app.remove_route(path)

    @app.get(CSV_PATH)
    async def _(request: Request, key: str) -> Response:
        kept = answers().find(key, request.state.visitor)
        if kept is None:
            return PlainTextResponse(GONE, 404)
        if kept.is_downloading:
            return PlainTextResponse("This file is being downloaded. Wait until it is here.", 429)
        return _CsvResponse(kept)

    @app.get(ROWS_PATH)
    # in a thread, because rows take a while
    def _(request: Request, key: str, page: int) -> Response:
        kept = answers().find(key, request.state.visitor)
        if kept is None or not 0 <= page < len(kept.starts):
            return PlainTextResponse(GONE, 404)
        rows = kept.answer.grid_json(*kept.grid_bounds(page))
        return Response(rows, media_type="application/json", headers={"cache-control": "no-store"})


class _CsvResponse(StreamingResponse):
    """The CSV file of an answer, made in a thread as fast as the browser reads it."""

    def __init__(self, kept: KeptAnswer) -> None:
        headers = {
            "content-disposition": 'attachment; filename="answer.csv"',
            "cache-control": "no-store",
        }
        super().__init__(kept.answer.csv_parts(), media_type="text/csv", headers=headers)
        self._kept = kept
        kept.is_downloading = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._kept.is_downloading = False


class QueryFaultError(ZerofleetError):
    """A visitor's query that failed; the message is for the visitor.

    Args:
        message: the error.
        place: index of the character of the query with the error, from 0; None: no place.
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
    """Runs queries in its own threads and connections, so that no page waits for a query.

    A visitor has one query running and one waiting. The next query to run belongs to the token with
    the fewest running, so that many logins with one token are no advantage.
    """

    def __init__(self, url: str) -> None:
        self.answers = KeptAnswers()
        """The answers that pages show."""
        self._url = url
        self._threads = ThreadPoolExecutor(_AT_ONCE, "queries")
        self._queries: list[_WaitingQuery] = []
        self._number = 0
        self._ending: set[asyncio.Task[None]] = set()

    async def run(self, query: str, visitor: Visitor) -> KeptAnswer:
        """Run a query in Postgres; cancelling this call cancels the query in Postgres, too.

        Raises:
            QueryFaultError: the query is wrong, writes, or takes too long; or too many wait.
            StoreUnavailableError: Postgres does not answer.
        """
        entry = self._enter(query, visitor)
        try:
            await entry.turn.wait()
        except BaseException:
            self._leave(entry)
            raise
        running = QueryRun(self._url, query)
        done = asyncio.get_running_loop().run_in_executor(self._threads, _measured, running)
        done.add_done_callback(lambda _: self._leave(entry))
        try:
            answer, starts, num_bytes = await asyncio.shield(done)
        except asyncio.CancelledError:
            ending = asyncio.create_task(self._end(running, done))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            raise
        return self.answers.keep(answer, starts, num_bytes, visitor)

    def close(self) -> None:
        """Accept no further queries; running ones end by their own limits."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _enter(self, query: str, visitor: Visitor) -> _WaitingQuery:
        if sum(each.visitor is visitor for each in self._queries) > 1:
            raise QueryFaultError(
                "a login has one query running and one waiting. Wait for your other pages"
            )
        if sum(not each.is_running for each in self._queries) >= MOST_WAITING:
            raise QueryFaultError(
                f"{MOST_WAITING} queries are waiting already. Try again in a minute"
            )
        self._number += 1
        entry = _WaitingQuery(visitor, query, self._number)
        self._queries.append(entry)
        self._start_next()
        return entry

    def _leave(self, entry: _WaitingQuery) -> None:
        self._queries.remove(entry)
        self._start_next()

    def _start_next(self) -> None:
        running = [each.visitor for each in self._queries if each.is_running]
        waiting = [
            each
            for each in self._queries
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
        """Cancel a query until it has ended, because Postgres ignores it between two statements."""
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
    """Run a query in this thread; see ``QueryRun``."""
    return QueryRun(url, query).answer()


class QueryRun:
    """One query, with its own connection, because a query can change its settings."""

    def __init__(self, url: str, query: str) -> None:
        self._url = url
        self._query = query
        self._lock = threading.Lock()
        self._connection: psycopg2.extensions.connection | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        """End the query from another thread, including a statement that is running in Postgres."""
        with self._lock:
            self._is_cancelled = True
            if self._connection is not None:
                with contextlib.suppress(psycopg2.Error):
                    self._connection.cancel()

    def answer(self) -> QueryAnswer:
        """Run the query in Postgres.

        Raises:
            QueryFaultError: the query is wrong, writes, or takes too long.
            StoreUnavailableError: Postgres does not answer.
        """
        if not self._query.strip() or "\0" in self._query:
            raise QueryFaultError("write a query that returns rows, such as SELECT * FROM runs")
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
            size += sum(len(row.encode()) for row in found) + _SIZE_OF_CELL * len(found) * len(
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
    """Refuse an opened query that Postgres cannot run within the limits of time or memory.

    Raises:
        QueryFaultError: its plan costs too much, or explaining it would run another query.
    """
    cursor.execute(_COST)
    cursor.execute("SELECT current_setting('zerofleet.cost')")
    cost = str(cursor.fetchall()[0][0])
    if not cost:
        _require_no_run(query)
    elif float(cost) > MOST_COST:
        raise QueryFaultError(
            f"Postgres estimates the cost of this query at {float(cost):,.0f}, and at most "
            f"{MOST_COST:,} is run here. Ask for less, such as the games of one model or of one "
            "day; `zerofleet sql` has no such limit"
        )


def _require_no_run(query: str) -> None:
    """Refuse a statement without a plan, unless it is SHOW, or EXPLAIN that runs nothing.

    Raises:
        QueryFaultError: it is another one, or its options may hide ANALYZE.
    """
    if re.search(r"\banaly[sz]e\b", query, re.IGNORECASE):
        raise QueryFaultError("EXPLAIN ANALYZE runs the query. Leave ANALYZE out")
    statement = _LINE_COMMENTS.sub("", query)
    if re.match(r"SHOW\b", statement, re.IGNORECASE):
        return
    if not re.match(r"EXPLAIN\b", statement, re.IGNORECASE):
        raise QueryFaultError(
            "Postgres cannot estimate the cost of this statement. Write SELECT, SHOW or EXPLAIN"
        )
    # A quoted name may have escapes in it, and a comment may have a parenthesis.
    if not re.match(r"EXPLAIN\s*(\([\w\s,]*\)|(?<=\s)(?=[a-z]))", statement, re.IGNORECASE):
        raise QueryFaultError(
            "EXPLAIN is allowed with options of plain words here, such as EXPLAIN (COSTS off) "
            "SELECT 1"
        )


def _next_rows(columns: Sequence[Any], longest: int, room: int, rows: int) -> str:
    """Return the statement for the next rows; it contains no value of a visitor."""
    names = [f"c{place}" for place in range(len(columns))]
    types = [_OWN_TYPES.get(column.type_code, "text") for column in columns]
    return _NEXT.format(
        errors=_SHORT_ERRORS,
        room=room,
        rows=rows,
        overhead=_SIZE_OF_CELL * len(names),
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
    """Return the error of Postgres, unless it results only from the way we run the query."""
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
            "only one query at a time can be run, and only one that returns rows: nothing is "
            "written here"
        )
    diagnostics = error.diag
    parts = [
        diagnostics.message_primary or str(error).strip(),
        diagnostics.message_detail,
        diagnostics.message_hint,
    ]
    position = diagnostics.internal_position
    return QueryFaultError(
        ". ".join(part for part in parts if part), int(position) - 1 if position else None
    )
