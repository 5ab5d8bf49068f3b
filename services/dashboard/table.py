"""A table on a page, with links, bars and lamps; all that it shows is text, never markup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from zerofleet.services.dashboard.toolkit import Element, events

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
