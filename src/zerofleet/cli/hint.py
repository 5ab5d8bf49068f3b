"""The table of a search as text for a person."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table
from zerofleet_core import State

from zerofleet.rpc.player import SearchTable

_MOST_ROWS = 8
_VARIATION_PLIES = 8


def hint_table(state: State, search: SearchTable) -> str:
    """Visits, prior, value and expected line of each action, the most visited first."""
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("action")
    for number in ("visits", "prior", "value"):
        table.add_column(number, justify="right")
    table.add_column("expected line")
    children = sorted(search.children, key=lambda child: (-child.visit_count, -child.prior))
    for child in children[:_MOST_ROWS]:
        table.add_row(
            child.action_string,
            str(child.visit_count),
            f"{child.prior:.0%}",
            "-" if child.q_value is None else f"{child.q_value:+.2f}",
            _variation(state, child.principal_variation[:_VARIATION_PLIES]),
        )
    text = io.StringIO()
    Console(file=text, width=100).print(table)
    value = f"value of the position for you: {search.root_value:+.2f}"
    return f"{text.getvalue()}{value} (model {search.version}, {search.simulations} simulations)"


def _variation(state: State, actions: tuple[int, ...]) -> str:
    state = state.copy()
    words: list[str] = []
    for action in actions:
        words.append(state.action_to_string(action))
        state.apply(action)
    return " ".join(words)
