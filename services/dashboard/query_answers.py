"""Answers of visitors' queries: kept while their pages are open, and sent to the browser over HTTP.

An answer never passes through a page's socket. NiceGUI keeps each message until the browser has
acknowledged it; a response over HTTP is only made as fast as the browser reads it.
"""

from __future__ import annotations

import csv
import io
import json
import secrets
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from fastapi import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from zerofleet.services.dashboard.toolkit import app
from zerofleet.services.dashboard.visitors import Visitor

CSV_PATH = "/sql/answer.csv"
ROWS_PATH = "/sql/rows"
GONE = "The rows of this answer are no longer kept. Run the query again."

_CELL_CHARACTERS = 1000  # of the grid; the CSV file has all
_CELL_BYTES = 80  # what Python takes for a value besides its characters
_GRID_ROWS = 1000  # in the browser at a time
_GRID_CELLS = 50_000
_GRID_CHARACTERS = 2_000_000
_PART_CHARACTERS = 200_000  # of a CSV file, made at once
_KEPT_BYTES = 100_000_000  # of the answers of all pages
_OF_A_VISITOR = 4


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """The rows of a query, every value as Postgres writes it."""

    columns: Sequence[str]
    are_numbers: Sequence[bool]
    """For each column, whether its values are numbers."""
    rows: Sequence[Sequence[str | None]]
    cut: str
    """What the rows are of an answer that has more; empty if these are all."""
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
        return values + _CELL_BYTES * len(self.rows) * len(self.columns)

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
    """The answers that pages show. If they take too much memory, the oldest are forgotten."""

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
    def _(request: Request, key: str, page: int) -> Response:  # in a thread: rows take a while
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
