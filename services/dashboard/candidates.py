"""The candidates of a search: as a table, and as marks on a board."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zerofleet.services.dashboard.board import BoardMark
from zerofleet.services.dashboard.toolkit import Table, TableColumn

_MOST_ROWS = 20  # rows of candidates
_LABELLED = 0.03  # share of the greatest one; labels of smaller ones would only clutter the board
_CANDIDATE_COLUMNS = (
    TableColumn("action", "Move"),
    TableColumn("visits", "Visits", figure=True),
    TableColumn("share", "Share", figure=True),
    TableColumn("value", "Value", figure=True),
    TableColumn("prior", "Prior", figure=True),
    TableColumn("line", "Expected line"),
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An action at the root of a search."""

    action: int
    text: str
    visits: int
    prior: float | None = None
    value: float | None = None  # for the first player
    line: str = ""  # the expected actions, in the game's notation


class CandidateTable(Table):
    """A search as a table: its candidates, best first.

    Args:
        on_aim: called with the action of the row under the pointer or the focus, and with None if
            there is none.
        columns: names of the columns to show: action, visits, share, value, prior, line.
        values_for: the player whose values are shown.
    """

    def __init__(
        self,
        on_aim: Callable[[int | None], Any] | None,
        *columns: str,
        values_for: str = "",
    ) -> None:
        def aimed(key: object) -> Any:  # noqa: ANN401  NiceGUI awaits it
            assert on_aim is not None
            return on_aim(key if isinstance(key, int) else None)

        shown = [
            replace(column, label=f"Value, {values_for}") if column.name == "value" else column
            for column in _CANDIDATE_COLUMNS
            if column.name in columns
        ]
        super().__init__(shown, on_aim=aimed if on_aim else None)
        self.classes("zf-candidates")

    def show_search(self, candidates: Sequence[Candidate]) -> None:
        """Show these candidates, in the given order."""
        total = sum(each.visits for each in candidates)
        self.show(
            [
                {
                    "key": each.action,
                    "action": each.text,
                    "visits": f"{each.visits:,}",
                    "share": f"{each.visits / total:.1%}" if total else "",
                    "value": "" if each.value is None else f"{each.value:+z.3f}",
                    "prior": "" if each.prior is None else f"{each.prior:.1%}",
                    "line": each.line,
                }
                for each in candidates[:_MOST_ROWS]
            ]
        )


def ranked(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Sort by visits, then by prior, largest first."""
    return sorted(candidates, key=lambda each: (-each.visits, -(each.prior or 0.0), each.action))


def visit_marks(candidates: Sequence[Candidate], *, values: bool = False) -> list[BoardMark]:
    """Return shares of the visits as marks of a board, labelled with them or with the values."""
    most = max((each.visits for each in candidates), default=0)
    total = sum(each.visits for each in candidates)

    def label(each: Candidate) -> str:
        if each.visits < _LABELLED * most:
            return ""
        if values:
            return "" if each.value is None else f"{each.value:+z.2f}"
        return f"{each.visits / total:.0%}"

    return [
        BoardMark(each.action, each.visits / most, label(each))
        for each in candidates
        if each.visits
    ]


def prior_marks(candidates: Sequence[Candidate]) -> list[BoardMark]:
    """Return the network's probabilities as marks of a board."""
    known = {each.action: each.prior for each in candidates if each.prior}
    most = max(known.values(), default=0.0)
    return [
        BoardMark(action, prior / most, f"{prior:.0%}" if prior >= _LABELLED * most else "")
        for action, prior in known.items()
    ]
