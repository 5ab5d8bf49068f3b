"""The parts of NiceGUI that the pages use, and a table made from them.

Only this module imports NiceGUI (linted). NiceGUI reads and writes ``.nicegui`` in the working
directory of a process, unless it is given another place before the import.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

# a variable of other programs; the dashboard stores nothing there
os.environ["NICEGUI_REDIS_URL"] = ""
# This path does not exist and cannot be created, so any attempt to store something fails.
os.environ["NICEGUI_STORAGE_PATH"] = "/dev/null/nothing-is-kept"

from nicegui import Client, app, core, events, ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

__all__ = [
    "NONE",
    "Client",
    "Element",
    "Table",
    "TableColumn",
    "TextElement",
    "app",
    "events",
    "sio",
    "ui",
]

sio: Any = core.sio
"""The server of all pages' sockets, of python-socketio, which has no types."""

NONE = "–"  # in an empty cell


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column, which shows each row's entry of its name.

    A row may have further entries for a cell, under the name with a suffix: ``_link`` (an address),
    ``_title`` (a tooltip), ``_lamp`` (its colour). Two entries replace the text: ``_share`` (a bar
    from the middle, in [-1, 1]) and ``_counts`` (a list with one bar each). ``address`` of a row is
    put into the browser's address when the row gets the pointer or the focus.
    """

    name: str
    label: str
    figure: bool = False
    """Aligned to the right."""
    optional: bool = False
    """Hidden while all its cells are empty."""

    def is_empty_in(self, row: dict[str, Any]) -> bool:
        """Return whether its cell is empty in a row."""
        drawn = row.get(f"{self.name}_counts"), row.get(f"{self.name}_share")
        return row[self.name] == NONE and drawn == (None, None)


class Table(Element, component="table.js"):
    """A table, or a text while there are no rows.

    Args:
        columns: columns in their order.
        empty: text that says what will appear, and when; without it the empty table is shown.
        on_aim: called with the untrusted ``key`` of the row under the pointer or the focus, and
            with None if there is none. None: rows do not react.
        shown: selector of the element that shows this row; a click on a row scrolls to it.
    """

    def __init__(
        self,
        columns: Sequence[TableColumn],
        empty: str = "",
        *,
        on_aim: Callable[[object], Any] | None = None,
        shown: str = "",
    ) -> None:
        super().__init__()
        self._columns = columns
        self._props |= {"empty": empty, "aimable": on_aim is not None, "shown": shown}
        self.rows: Sequence[dict[str, Any]] = ()
        """The rows shown."""
        self._set(())
        if on_aim is not None:

            def aimed(event: events.GenericEventArguments) -> Any:  # noqa: ANN401  NiceGUI awaits it
                return on_aim(event.args)

            self.on("aimed", aimed)

    def show(self, rows: Sequence[dict[str, Any]]) -> None:
        """Show rows, each with its own ``key``; unchanged rows are not sent again."""
        if list(rows) != self.rows:
            self._set(rows)

    def _set(self, rows: Sequence[dict[str, Any]]) -> None:
        self.rows = list(rows)
        self._props["rows"] = self.rows
        self._props["columns"] = [
            {"name": column.name, "label": column.label, "figure": column.figure}
            for column in self._columns
            if not (column.optional and all(map(column.is_empty_in, rows)))
        ]
