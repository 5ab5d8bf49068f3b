"""The parts of NiceGUI that are used, and a table made from them.

Only this module imports NiceGUI (linted). NiceGUI reads and writes ``.nicegui`` in the folder where
a process starts, unless it is given another place before the import.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

os.environ["NICEGUI_REDIS_URL"] = ""  # that of another program; this one stores nothing
# Nothing is there and nothing can be written there; whoever tried to keep something would fail.
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

NONE = "–"  # in a cell that has nothing


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column, which shows the entry of its name of each row.

    What more a cell shows stands in the row under the name with an ending: ``_link`` (an address),
    ``_title`` (words at the pointer), ``_lamp`` (its colour), and in place of the text ``_share``
    (of a bar from the middle, in [-1, 1]) or ``_counts`` (a list, each a bar of its own).
    """

    name: str
    label: str
    figure: bool = False
    """Stands to the right."""
    optional: bool = False
    """Not shown while no row has anything in it."""

    def is_empty_in(self, row: dict[str, Any]) -> bool:
        """Whether a row has nothing in it."""
        drawn = row.get(f"{self.name}_counts"), row.get(f"{self.name}_share")
        return row[self.name] == NONE and drawn == (None, None)


class Table(Element, component="table.js"):
    """A table, or words while there is nothing to show.

    Args:
        columns: in their order.
        empty: what will appear, and when; without it the empty table stands there.
        on_aim: called with the ``key`` of the row that the pointer or the focus is on, and with
            None when it is on none; it is a visitor's word. None: rows cannot be aimed at.
    """

    def __init__(
        self,
        columns: Sequence[TableColumn],
        empty: str = "",
        *,
        on_aim: Callable[[object], Any] | None = None,
    ) -> None:
        super().__init__()
        self._columns = columns
        self._props |= {"empty": empty, "aimable": on_aim is not None}
        self.rows: Sequence[dict[str, Any]] = ()
        """What is shown."""
        self._set(())
        if on_aim is not None:

            def aimed(event: events.GenericEventArguments) -> Any:  # noqa: ANN401  NiceGUI awaits it
                return on_aim(event.args)

            self.on("aimed", aimed)

    def show(self, rows: Sequence[dict[str, Any]]) -> None:
        """Show rows, each with a ``key`` of its own; rows that are shown are not sent again."""
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
