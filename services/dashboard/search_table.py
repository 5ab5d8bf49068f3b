"""A search as a table: its candidates, the most visited first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from services.dashboard.board import BoardMark
from services.dashboard.toolkit import events, ui

_MOST_ROWS = 20
_LABELLED = 0.03  # of the greatest share; below, a number on the board would only clutter it
_COLUMNS = (
    ("action", "action", "left"),
    ("visits", "visits", "right"),
    ("share", "share", "right"),
    ("q", "Q", "right"),
    ("prior", "prior", "right"),
    ("line", "expected line", "left"),
)
# Text goes through the template's escaping; a row can be reached and chosen by keyboard too.
_ROW = """
<q-tr :props="props" tabindex="0" class="zf-candidate"
  @mouseenter="() => $parent.$emit('aimed', props.row.number)"
  @mouseleave="() => $parent.$emit('aimed', null)"
  @focus="() => $parent.$emit('aimed', props.row.number)"
  @blur="() => $parent.$emit('aimed', null)">
  <q-td v-for="col in props.cols" :key="col.name" :props="props">{{ col.value }}</q-td>
</q-tr>
"""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An action at the root of a search."""

    action: int
    text: str
    visits: int
    prior: float | None = None
    q_value: float | None = None  # for the player to move at the root
    line: str = ""  # the expected actions, in the game's notation


class CandidateTable:
    """The table on a page.

    Args:
        on_aim: called with the action whose row the pointer or the focus is on; None: on none.
        columns: names of those that are shown, of action, visits, share, q, prior, line.
    """

    def __init__(self, on_aim: Callable[[int | None], Any] | None, *columns: str) -> None:
        shown: list[dict[str, object]] = [
            {"name": name, "label": label, "field": name, "align": align}
            for name, label, align in _COLUMNS
            if name in columns
        ]
        self._table = ui.table(rows=[], columns=shown, row_key="number").classes("zf-candidates")
        self._table.props('flat dense :rows-per-page-options="[0]" hide-bottom')
        self._table.add_slot("body", _ROW)
        if on_aim is not None:

            def aimed(event: events.GenericEventArguments) -> Any:  # noqa: ANN401  NiceGUI awaits it
                return on_aim(event.args if isinstance(event.args, int) else None)

            self._table.on("aimed", aimed)

    def set_visibility(self, visible: bool) -> None:
        """Show the table, or hide it."""
        self._table.set_visibility(visible)

    def show(self, candidates: Sequence[Candidate]) -> None:
        """Show these; the most visited first, then by prior."""
        total = sum(each.visits for each in candidates)
        self._table.rows = [
            {
                "number": each.action,
                "action": each.text,
                "visits": f"{each.visits:,}",
                "share": f"{each.visits / total:.1%}" if total else "",
                "q": "" if each.q_value is None else f"{each.q_value:+z.3f}",
                "prior": "" if each.prior is None else f"{each.prior:.1%}",
                "line": each.line,
            }
            for each in ranked(candidates)[:_MOST_ROWS]
        ]


def ranked(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The most visited first, then by prior."""
    return sorted(candidates, key=lambda each: (-each.visits, -(each.prior or 0.0), each.action))


def visit_marks(candidates: Sequence[Candidate], *, values: bool = False) -> list[BoardMark]:
    """Shares of the visits, as marks of a board; labelled with them, or with Q."""
    most = max((each.visits for each in candidates), default=0)
    total = sum(each.visits for each in candidates)

    def label(each: Candidate) -> str:
        if each.visits < _LABELLED * most:
            return ""
        if values:
            return "" if each.q_value is None else f"{each.q_value:+z.2f}"
        return f"{each.visits / total:.0%}"

    return [
        BoardMark(each.action, each.visits / most, label(each))
        for each in candidates
        if each.visits
    ]


def prior_marks(candidates: Sequence[Candidate]) -> list[BoardMark]:
    """The network's probabilities, as marks of a board."""
    known = {each.action: each.prior for each in candidates if each.prior}
    most = max(known.values(), default=0.0)
    return [
        BoardMark(action, prior / most, f"{prior:.0%}" if prior >= _LABELLED * most else "")
        for action, prior in known.items()
    ]
