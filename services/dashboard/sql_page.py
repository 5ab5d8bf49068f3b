"""The SQL page: visitors query the database, read-only."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

from zerofleet.errors import StoreUnavailableError
from zerofleet.services.dashboard.frame import Frame, Visit, hidden_heading
from zerofleet.services.dashboard.sources import Sources
from zerofleet.services.dashboard.sql_queries import (
    CSV_PATH,
    GONE,
    MOST_ROWS,
    MOST_SECONDS,
    ROWS_PATH,
    KeptAnswer,
    QueryAnswer,
    QueryFaultError,
    VisitorQueries,
    add_answer_routes,
)
from zerofleet.services.dashboard.toolkit import events, ui

_RELATIONS_SECONDS = 60.0
_SHOWN_ROWS = 100  # rows of a saved query
_FEW_ROWS = 12  # up to this many rows the grid is as high as its rows
_QUERY_CHARACTERS = 20_000  # characters of an address
_EDITOR_CHARACTERS = 100_000
_MOST_SECTIONS = 20_000  # numbers in a change set
_FIRST_QUERY = "SELECT name, game, created_at FROM runs ORDER BY created_at DESC LIMIT 100"
_FILL_GRID = Path(__file__).with_name("sql_grid.js").read_text(encoding="utf-8")
_EDITOR = Path(__file__).with_name("sql_editor.js").read_text(encoding="utf-8")

_RELATIONS = """
SELECT
    c.relname AS name, c.relkind = 'v' AS is_view,
    coalesce(obj_description(c.oid, 'pg_class'), '') AS comment,
    array_agg(a.attname::text ORDER BY a.attnum) AS columns
FROM pg_class AS c
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v')
    AND NOT c.relispartition AND has_table_privilege(c.oid, 'SELECT')
GROUP BY c.oid ORDER BY c.relname LIMIT 1000
"""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or a view that visitors may query."""

    name: str
    is_view: bool
    comment: str
    columns: tuple[str, ...]

    def saved_query(self, run: str) -> str:
        """Return a query for its first rows, of one run if it has a column for it."""
        of_run = ""
        if "run" in self.columns:
            quoted = run.replace("'", "''")
            of_run = f"\nWHERE run = '{quoted}'"
        return f"SELECT * FROM {self.name}{of_run}\nLIMIT {_SHOWN_ROWS}"


async def read_relations(sources: Sources) -> list[Relation]:
    """Return tables and views by name.

    Raises:
        StoreUnavailableError: Postgres does not answer.
    """
    rows = await sources.rows(_RELATIONS)
    return [Relation(row.name, row.is_view, row.comment, tuple(row.columns)) for row in rows]


def add_sql_page(frame: Frame, queries: VisitorQueries) -> None:
    """Register the page, and the addresses of its answers."""
    add_answer_routes(lambda: queries.answers)

    @frame.page("/sql", "SQL", "query")
    async def _(visit: Visit) -> None:
        hidden_heading("SQL")
        query = visit.parameters.get("query", _FIRST_QUERY)
        if len(query) > _QUERY_CHARACTERS:
            visit.note(
                f"The query has {len(query):,} characters: the first {_QUERY_CHARACTERS:,} are "
                "shown."
            )
        with ui.element("div").classes("zf-sql"):
            saved = ui.element("section").classes("zf-panel zf-saved")
            with ui.element("div").classes("zf-asked"):
                desk = _Desk(visit, queries, query)
        show = partial(_show_saved, visit, saved, desk)
        visit.watch(
            visit.shared("relations", partial(read_relations, visit.sources), _RELATIONS_SECONDS),
            show,
        )


def _show_saved(
    visit: Visit, place: ui.element, desk: _Desk, relations: Sequence[Relation]
) -> None:
    """Show the views as saved queries, and offer names to the editor."""
    desk.complete(relations)
    place.clear()
    with place:
        ui.label("Views").classes("zf-title").props('role="heading" aria-level="2"')
        for relation in relations:
            if relation.is_view:
                query = relation.saved_query(visit.run.name)
                with ui.element("div").classes("zf-view"):
                    ask = ui.button(relation.name, on_click=partial(desk.ask, query), color=None)
                    ask.props("flat dense no-caps").classes("zf-blue")
                    ui.label(relation.comment).classes("zf-note")


class QueryEditor(ui.codemirror):
    """An editor that accepts a browser's changes only if they fit its text and keep it short.

    NiceGUI applies a change set unchecked: one with negative lengths copies the text many times.
    """

    def _event_args_to_value(self, e: events.GenericEventArguments) -> str:
        sections, inserted = _change_set(e.args)
        length = len(self._codepoints)
        fits = sections is not None and sum(sections[::2]) == length
        if sections is not None and fits and _new_length(sections) <= _EDITOR_CHARACTERS:
            return self._apply_change_set(sections, inserted)
        why = (
            f"The editor takes at most {_EDITOR_CHARACTERS:,} characters"
            if fits
            else "The change did not fit the text"
        )
        ui.notify(f"{why}. It was undone.", type="negative")
        self.update()  # so that the browser shows the server's text
        return self.value

    def _update_anchor_mirror(self, e: events.GenericEventArguments) -> None:
        """Ignore the browser's anchors: this editor has none."""


def _change_set(args: object) -> tuple[list[int] | None, list[list[str]]]:
    """Return the sections and the inserted lines of a browser's change; None: it is not valid."""
    given = cast("dict[str, Any]", args if isinstance(args, dict) else {})
    sections, inserted = given.get("sections"), given.get("inserted")
    if not isinstance(sections, list) or not isinstance(inserted, list):
        return None, []
    numbers, parts = cast("list[object]", sections), cast("list[object]", inserted)
    if len(numbers) > _MOST_SECTIONS or len(numbers) % 2:
        return None, []
    lengths = [each for each in numbers if type(each) is int]
    lines = [part for part in parts if _are_lines(part)]
    if len(lengths) < len(numbers) or len(lines) < len(parts):
        return None, []
    is_valid = min(lengths[::2], default=0) >= 0 and min(lengths[1::2], default=0) >= -1
    texts = cast("list[list[str]]", lines)
    return (lengths if is_valid and _agree(lengths, texts) else None), texts


def _are_lines(part: object) -> bool:
    return isinstance(part, list) and all(
        isinstance(line, str) for line in cast("list[object]", part)
    )


def _agree(sections: Sequence[int], inserted: Sequence[Sequence[str]]) -> bool:
    """Return whether each inserted text is as long as its section says, in UTF-16 units."""
    texts = ["\n".join(lines) for lines in inserted]
    texts += [""] * (len(sections) // 2 - len(texts))
    return len(texts) == len(sections) // 2 and all(
        len(text.encode("utf-16-le", "surrogatepass")) == 2 * max(0, new)
        for new, text in zip(sections[1::2], texts, strict=True)
    )


def _new_length(sections: Sequence[int]) -> int:
    return sum(
        old if new == -1 else new for old, new in zip(sections[::2], sections[1::2], strict=True)
    )


class _Desk:
    """The editor, and below it the answer to the query; draws itself where it is made.

    Args:
        queries: runs the query.
        query: initial text of the editor.
    """

    def __init__(self, visit: Visit, queries: VisitorQueries, query: str) -> None:
        self._visit = visit
        self._queries = queries
        self._answers = queries.answers
        self._kept: KeptAnswer | None = None
        self._page = 0
        self._asking: asyncio.Task[None] | None = None
        with ui.element("section").classes("zf-panel"):
            self._editor = QueryEditor(
                # The browser counts a line break as one character.
                query[:_QUERY_CHARACTERS].replace("\r\n", "\n").replace("\r", "\n"),
                language="PostgreSQL",
                theme="vscodeLight",
                line_wrapping=True,
                keymap={"Mod-Enter": self.run},
            ).classes("zf-editor")
            with ui.element("div").classes("zf-row"):
                self._run_button = ui.button("Run", on_click=self.run).props("no-caps")
                self._csv_button = ui.button("CSV", on_click=self._download, color=None)
                self._csv_button.props("flat no-caps").classes("zf-blue").disable()
                ui.label(
                    f"Read-only, at most {MOST_SECONDS} s and {MOST_ROWS:,} rows. Ctrl and Enter "
                    "runs it too; Esc, then Tab leaves the editor."
                ).classes("zf-note")
            self._fault = ui.label().classes("zf-fault").props('role="alert"')
            self._status = ui.label().classes("zf-note").props('role="status"')
        self._place = ui.element("div")
        visit.while_here(self._stop, self.run)
        ui.context.client.on_delete(lambda: self._answers.forget(self._kept))

    def complete(self, relations: Sequence[Relation]) -> None:
        """Offer tables, views and columns while somebody types."""
        known = {
            each.name: {"columns": each.columns, "comment": each.comment} for each in relations
        }
        ui.run_javascript(f"({_EDITOR})({self._editor.id}, {json.dumps(known)})")

    def ask(self, query: str) -> None:
        """Put a query into the editor and run it."""
        self._editor.value = query
        self.run()

    def run(self, _: object = None) -> None:
        """Run the query in the editor, unless one is running already."""
        if self._asking is None:
            self._clear()
            self._run_button.disable()
            self._status.set_text("Running the query ...")
            self._asking = asyncio.create_task(self._ask(str(self._editor.value)))

    async def _ask(self, query: str) -> None:
        try:
            self._show(await self._queries.run(query, self._visit.sources.visitor))
        except (QueryFaultError, StoreUnavailableError) as error:
            self._status.set_text("")
            self._show_fault(query, error)
        finally:
            if self._asking is asyncio.current_task():  # otherwise the page was closed
                self._asking = None
                self._run_button.enable()

    def _stop(self) -> bool:
        """End the query of a page that was closed; return whether there was one."""
        asking, self._asking = self._asking, None
        return asking is not None and asking.cancel()

    def _clear(self) -> None:
        self._answers.forget(self._kept)
        self._kept = None
        self._csv_button.disable()
        self._fault.set_text("")
        self._editor.decorations = []
        self._place.clear()

    def _show_fault(self, query: str, error: Exception) -> None:
        place = error.place if isinstance(error, QueryFaultError) else None
        if place is None or place >= len(query):
            self._fault.set_text(str(error))
            return
        before = query[:place]
        line, column = before.count("\n") + 1, place - before.rfind("\n")
        self._fault.set_text(f"line {line}, character {column}: {error}")
        word = re.match(r"\w+|.", query[place:], re.DOTALL)
        end = place + (word.end() if word else 1)
        self._editor.decorations = [
            {"kind": "mark", "from": place, "to": end, "class": "zf-marked"}
        ]

    def _show(self, kept: KeptAnswer) -> None:
        self._kept, answer = kept, kept.answer
        self._csv_button.enable()
        rows = f"{len(answer.rows):,} row" + ("" if len(answer.rows) == 1 else "s")
        shown = f"{answer.cut}: there are more" if answer.cut else rows
        if answer.longest:
            shown += f"; longer values are cut to {answer.longest:,} characters"
        self._status.set_text(f"{shown}; {answer.seconds:.2f} s")
        with self._place:
            if len(kept.starts) > 1:
                self._pager(kept)
            self._grid = ui.aggrid(_grid(answer), auto_size_columns=False)
            self._grid.classes("zf-grid" if len(answer.rows) > _FEW_ROWS else "zf-low-grid")
        if answer.rows:
            self._show_page(0)

    def _pager(self, kept: KeptAnswer) -> None:
        with ui.element("div").classes("zf-row"):
            self._range = ui.label().classes("zf-note").props('role="status"')
            for words, step in (("Previous rows", -1), ("Next rows", 1)):
                button = ui.button(words, on_click=partial(self._go, kept, step), color=None)
                button.props("flat dense no-caps").classes("zf-blue")
            ui.label("A click on a column sorts the rows shown.").classes("zf-note")

    def _go(self, kept: KeptAnswer, step: int) -> None:
        self._show_page(min(max(self._page + step, 0), len(kept.starts) - 1))

    def _show_page(self, page: int) -> None:
        """Make the browser fetch a page of rows, which do not pass through the socket."""
        kept = self._kept
        if kept is None or not self._is_kept(kept):
            return
        self._page = page
        if len(kept.starts) > 1:
            start, end = kept.grid_bounds(page)
            self._range.set_text(f"Rows {start + 1:,} to {end:,} of {len(kept.answer.rows):,}")
        address = f"{ROWS_PATH}?{urlencode({'key': kept.key, 'page': page})}"
        with self._place:
            ui.run_javascript(f"({_FILL_GRID})({self._grid.id}, {json.dumps(address)})")

    def _download(self) -> None:
        kept = self._kept
        if kept is None or not self._is_kept(kept):
            return
        if kept.is_downloading:
            self._fault.set_text("The CSV file is being downloaded. Wait until it is complete.")
            return
        self._fault.set_text("")
        ui.download.from_url(f"{CSV_PATH}?{urlencode({'key': kept.key})}", "answer.csv", "text/csv")

    def _is_kept(self, kept: KeptAnswer) -> bool:
        """Return whether the rows are still kept; if not, show a message."""
        is_there = self._answers.find(kept.key, kept.visitor) is kept
        if not is_there:
            self._fault.set_text(GONE)
        return is_there


def _grid(answer: QueryAnswer) -> dict[str, Any]:
    """Return AG Grid's options; values are text, numbers are sorted as numbers."""
    columns: list[dict[str, Any]] = []
    for place, (name, is_number) in enumerate(zip(answer.columns, answer.are_numbers, strict=True)):
        column: dict[str, Any] = {"field": str(place), "headerName": name}
        if is_number:
            column |= {"type": "rightAligned", ":comparator": "(a, b) => Number(a) - Number(b)"}
        columns.append(column)
    return {
        "columnDefs": columns,
        "loading": bool(answer.rows),
        "rowData": [],
        "defaultColDef": {"sortable": True, "resizable": True, "minWidth": 80},
        "autoSizeStrategy": {"type": "fitCellContents", "skipHeader": False},
        "enableCellTextSelection": True,
        "domLayout": "normal" if len(answer.rows) > _FEW_ROWS else "autoHeight",
    }
