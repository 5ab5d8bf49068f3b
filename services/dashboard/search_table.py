"""A search as a table: its candidates, best first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from zerofleet.client import PlayerDescription
from zerofleet.rpc.codec import BEST
from zerofleet.services.dashboard.board import BoardMark
from zerofleet.services.dashboard.frame import Visit
from zerofleet.services.dashboard.table import Table, TableColumn
from zerofleet.services.dashboard.toolkit import events, ui

_MOST_ROWS = 20
_LABELLED = 0.03  # of the greatest share; below, a number on the board would only clutter it
_COLUMNS = (
    TableColumn("action", "action"),
    TableColumn("visits", "visits", figure=True),
    TableColumn("share", "share", figure=True),
    TableColumn("value", "value", figure=True),
    TableColumn("prior", "prior", figure=True),
    TableColumn("line", "expected line"),
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
    """The table on a page.

    Args:
        on_aim: called with the action whose row the pointer or the focus is on; None: on none.
        columns: names of the columns to show: action, visits, share, value, prior, line.
    """

    def __init__(self, on_aim: Callable[[int | None], Any] | None, *columns: str) -> None:
        def aimed(key: object) -> Any:  # noqa: ANN401  NiceGUI awaits it
            assert on_aim is not None
            return on_aim(key if isinstance(key, int) else None)

        shown = [column for column in _COLUMNS if column.name in columns]
        super().__init__(shown, on_aim=aimed if on_aim else None)
        self.classes("zf-candidates")

    def show_search(self, candidates: Sequence[Candidate]) -> None:
        """Show these, in the order given."""
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
    """The most visited first, then by prior."""
    return sorted(candidates, key=lambda each: (-each.visits, -(each.prior or 0.0), each.action))


def visit_marks(candidates: Sequence[Candidate], *, values: bool = False) -> list[BoardMark]:
    """Shares of the visits, as marks of a board; labelled with them, or with the values."""
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
    """The network's probabilities, as marks of a board."""
    known = {each.action: each.prior for each in candidates if each.prior}
    most = max(known.values(), default=0.0)
    return [
        BoardMark(action, prior / most, f"{prior:.0%}" if prior >= _LABELLED * most else "")
        for action, prior in known.items()
    ]


def versions_of(described: PlayerDescription) -> dict[str, str]:
    """Return the models of the inference service with their labels: best, then the newest first."""
    return {BEST: "best", **{str(v): f"model {v}" for v in reversed(described.versions)}}


class SimulationsField:
    """Field for the simulations of each search, with a message if a number is not allowed.

    Args:
        visit: its address may have ``simulations``.
        described: the inference service, with the limits.
        changed: called when the number has changed.
        props: further properties of the field.
    """

    def __init__(
        self,
        visit: Visit,
        described: PlayerDescription,
        changed: Callable[[], None],
        props: str = "",
    ) -> None:
        self.value = _asked_simulations(visit, described)
        self._described = described
        self._changed = changed
        most = described.max_simulations
        field = ui.number(
            "simulations", value=self.value, min=1, max=most, precision=0, on_change=self._choose
        )
        field.props(f'{props} hint="1 to {most:,}"').classes("zf-field")
        self._message = ui.label("").classes("zf-trouble").props('role="alert"')

    @property
    def in_address(self) -> int | None:
        """The number as the address has it; None: the default, which it leaves out."""
        return None if self.value == self._described.num_simulations else self.value

    def _choose(self, event: events.ValueChangeEventArguments[float | None]) -> None:
        if event.value is None:
            return
        used, words = _allowed_simulations(event.value, self._described)
        if used != self.value or words:  # otherwise the field shows the number that is used
            self.value = used
            self._message.set_text(words)
            self._changed()


def _asked_simulations(visit: Visit, described: PlayerDescription) -> int:
    """Return the ``simulations`` of each search, within the limits of the inference service."""
    value = visit.parameters.get("simulations", "")
    if not value:
        return described.num_simulations
    if value.isascii() and value.isdecimal():
        used, words = _allowed_simulations(float(value[:12]), described)
    else:
        used = described.num_simulations
        words = f"simulations={value[:80]} is not a whole number. {used:,} is used instead."
    if words:
        visit.note(words)
    return used


def _allowed_simulations(asked: float, described: PlayerDescription) -> tuple[int, str]:
    """Return the nearest allowed number, and a message if it is not the requested one."""
    most = described.max_simulations
    used = int(max(1, min(asked, most)))
    if used == asked:
        return used, ""
    return (
        used,
        f"{asked:,.12g} simulations are not allowed. Give 1 to {most:,}; {used:,} is used instead.",
    )
