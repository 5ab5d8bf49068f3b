"""A table of what the database says, with links and bars; all of it is text, never markup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from services.dashboard.toolkit import ui

_LINK = """
<q-td :props="props">
  <a v-if="props.row.{name}_link" :href="props.row.{name}_link">{{{{ props.value }}}}</a>
  <template v-else>{{{{ props.value }}}}</template>
</q-td>
"""
_TITLE = """
<q-td :props="props"><span :title="props.row.{name}_title">{{{{ props.value }}}}</span></q-td>
"""
# A bar from the middle: full to the right where the test promotes, to the left where it rejects.
_BAR = """
<q-td :props="props">
  <span v-if="props.row.{name}_share === null">{{{{ props.value }}}}</span>
  <span v-else class="zf-bound" role="img" :aria-label="props.row.{name}_title"
    :title="props.row.{name}_title">
    <span :class="['zf-bound-fill', props.row.{name}_share < 0 ? 'zf-negative' : 'zf-positive']"
      :style="{{ width: Math.abs(props.row.{name}_share) * 50 + '%',
        left: (props.row.{name}_share < 0 ? 50 + props.row.{name}_share * 50 : 50) + '%' }}"></span>
  </span>
</q-td>
"""
# Columns of their own height, as in a chart; the greatest is full.
_COUNTS = """
<q-td :props="props">
  <span v-if="!props.row.{name}_counts">{{{{ props.value }}}}</span>
  <span v-else class="zf-counts" role="img" :aria-label="props.row.{name}_title"
    :title="props.row.{name}_title">
    <span v-for="(count, place) in props.row.{name}_counts" :key="place"
      :style="{{ height: 6 + 94 * count / Math.max(1, ...props.row.{name}_counts) + '%' }}">
    </span>
  </span>
</q-td>
"""
_SLOTS = {"link": _LINK, "title": _TITLE, "bar": _BAR, "counts": _COUNTS}


NONE = "–"  # in a cell that has nothing


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column, which shows the entry of its name of each row.

    What more a cell needs stands in the row under the name with an ending: ``_link`` (an address,
    or None), ``_title`` (words at the pointer), ``_share`` (of a bar, in [-1, 1], or None),
    ``_counts`` (a list, or None).
    """

    name: str
    label: str
    kind: Literal["text", "figure", "link", "title", "bar", "counts"] = "text"
    optional: bool = False
    """Not shown while no row has anything in it."""

    def is_empty_in(self, row: dict[str, Any]) -> bool:
        """Whether a row has nothing in it."""
        drawn = row.get(f"{self.name}_counts"), row.get(f"{self.name}_share")
        return row[self.name] == NONE and drawn == (None, None)


class DataTable:
    """A table, or words while there is nothing to show.

    Args:
        columns: in their order.
        empty: what will appear, and when.
    """

    def __init__(self, columns: Sequence[TableColumn], empty: str) -> None:
        shown = [
            {
                "name": column.name,
                "label": column.label,
                "field": column.name,
                "align": "right" if column.kind == "figure" else "left",
            }
            for column in columns
        ]
        self._columns = columns
        self._empty = ui.label(empty).classes("zf-empty")
        self._table = ui.table(rows=[], columns=shown, row_key="key").classes("zf-data")
        # Where it is wider than the page, arrow keys move what can be focused.
        self._table.props('flat dense :rows-per-page-options="[0]" hide-bottom tabindex=0')
        self._table.set_visibility(False)
        for column in columns:
            if column.kind in _SLOTS:
                slot = _SLOTS[column.kind].format(name=column.name)
                self._table.add_slot(f"body-cell-{column.name}", slot)

    def show(self, rows: Sequence[dict[str, Any]]) -> None:
        """Show rows, each with a ``key`` of its own; rows that are shown are not sent again."""
        if list(rows) == self._table.rows:
            return
        self._table.rows = list(rows)
        self._table.props["visible-columns"] = [
            column.name
            for column in self._columns
            if not (column.optional and all(map(column.is_empty_in, rows)))
        ]
        self._table.set_visibility(bool(rows))
        self._empty.set_visibility(not rows)
