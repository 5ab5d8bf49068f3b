"""SQL: a visitor asks the database, read-only."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from services.dashboard.frame import Frame, Visit, said_heading
from services.dashboard.sources import Sources
from services.dashboard.toolkit import ui
from services.dashboard.visitor_queries import (
    MOST_ROWS,
    MOST_SECONDS,
    QueryAnswer,
    QueryFaultError,
)
from zerofleet.errors import StoreUnavailableError

_RELATIONS_SECONDS = 60.0
_SHOWN_ROWS = 100  # of a saved query
_CELL_CHARACTERS = 1000  # of the grid; the CSV file has all
_FEW_ROWS = 12  # of which the grid is no higher than they are
_QUERY_CHARACTERS = 20_000
_FIRST_QUERY = "SELECT name, game, created_at FROM runs ORDER BY created_at DESC LIMIT 100"
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
    """A table or a view that may be asked."""

    name: str
    is_view: bool
    comment: str
    columns: tuple[str, ...]

    def saved_query(self, run: str) -> str:
        """The first rows of it, of one run where it has a run."""
        of_run = ""
        if "run" in self.columns:
            quoted = run.replace("'", "''")
            of_run = f"\nWHERE run = '{quoted}'"
        return f"SELECT * FROM {self.name}{of_run}\nLIMIT {_SHOWN_ROWS}"


async def read_relations(sources: Sources) -> list[Relation]:
    """Tables and views, by name.

    Raises:
        StoreUnavailableError: Postgres does not answer.
    """
    rows = await sources.rows(_RELATIONS)
    return [Relation(row.name, row.is_view, row.comment, tuple(row.columns)) for row in rows]


def add_sql_page(frame: Frame) -> None:
    """Register it."""

    @frame.page("/sql", "SQL", "query")
    async def _(visit: Visit) -> None:
        said_heading("SQL")
        query = visit.parameters.get("query", _FIRST_QUERY)
        if len(query) > _QUERY_CHARACTERS:
            visit.note(
                f"The query has {len(query):,} characters: the first {_QUERY_CHARACTERS:,} are "
                "shown."
            )
        with ui.element("div").classes("zf-sql"):
            saved = ui.element("section").classes("zf-panel zf-saved")
            with ui.element("div").classes("zf-asked"):
                desk = _Desk(visit, query)
        show = partial(_show_saved, visit, saved, desk)
        visit.watch(
            visit.shared("relations", partial(read_relations, visit.sources), _RELATIONS_SECONDS),
            show,
        )


def _show_saved(
    visit: Visit, place: ui.element, desk: _Desk, relations: Sequence[Relation]
) -> None:
    """The views as saved queries, and what the editor completes."""
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


class _Desk:
    """The editor, and under it what came of the query; draws itself where it is made.

    Args:
        visit: of the page.
        query: what stands in the editor at first.
    """

    def __init__(self, visit: Visit, query: str) -> None:
        self._visit = visit
        self._answer: QueryAnswer | None = None
        with ui.element("section").classes("zf-panel"):
            self._editor = ui.codemirror(
                query[:_QUERY_CHARACTERS],
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
            self._said = ui.label().classes("zf-note").props('role="status"')
        self._place = ui.element("div")

    def complete(self, relations: Sequence[Relation]) -> None:
        """Offer tables, views and columns while somebody types."""
        known = {
            each.name: {"columns": each.columns, "comment": each.comment} for each in relations
        }
        ui.run_javascript(f"({_EDITOR})({self._editor.id}, {json.dumps(known)})")

    async def ask(self, query: str) -> None:
        """Put a query into the editor and run it."""
        self._editor.value = query
        await self.run()

    async def run(self, _: object = None) -> None:
        """Run what stands in the editor; what is running already goes on."""
        if not self._run_button.enabled:
            return
        query = str(self._editor.value)
        self._clear()
        self._run_button.disable()
        self._said.set_text("Asking ...")
        try:
            self._show(await self._visit.sources.queries.run(query))
        except (QueryFaultError, StoreUnavailableError) as error:
            self._said.set_text("")
            self._show_fault(query, error)
        finally:
            self._run_button.enable()

    def _clear(self) -> None:
        self._answer = None
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

    def _show(self, answer: QueryAnswer) -> None:
        self._answer = answer
        self._csv_button.enable()
        rows = f"{len(answer.rows):,} row" + ("" if len(answer.rows) == 1 else "s")
        shown = f"{answer.cut}: there are more" if answer.cut else rows
        self._said.set_text(f"{shown}; {answer.seconds:.2f} s")
        with self._place:
            grid = ui.aggrid(_grid(answer), auto_size_columns=False)
            grid.classes("zf-grid" if len(answer.rows) > _FEW_ROWS else "zf-low-grid")

    def _download(self) -> None:
        if self._answer is not None:
            ui.download.content(self._answer.as_csv(), "answer.csv", "text/csv")


def _grid(answer: QueryAnswer) -> dict[str, Any]:
    """AG Grid's options; values are text, numbers are sorted as numbers."""
    columns: list[dict[str, Any]] = []
    for place, (name, is_number) in enumerate(zip(answer.columns, answer.are_numbers, strict=True)):
        column: dict[str, Any] = {"field": f"c{place}", "headerName": name}
        if is_number:
            column |= {"type": "rightAligned", ":comparator": "(a, b) => Number(a) - Number(b)"}
        columns.append(column)
    return {
        "columnDefs": columns,
        "rowData": [
            {
                f"c{place}": None if value is None else value[:_CELL_CHARACTERS]
                for place, value in enumerate(row)
            }
            for row in answer.rows
        ],
        "defaultColDef": {"sortable": True, "resizable": True, "minWidth": 80},
        "autoSizeStrategy": {"type": "fitCellContents", "skipHeader": False},
        "enableCellTextSelection": True,
        "domLayout": "normal" if len(answer.rows) > _FEW_ROWS else "autoHeight",
    }
