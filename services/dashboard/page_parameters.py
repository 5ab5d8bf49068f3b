"""Read the parameters of an address, and note what replaces an invalid one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from zerofleet.client import PlayerDescription
from zerofleet.errors import IllegalActionError
from zerofleet.games import parse_actions
from zerofleet.games.notation import whole_number
from zerofleet.rpc.codec import BEST
from zerofleet.services.dashboard.frame import NothingThereError, Visit
from zerofleet.services.dashboard.toolkit import events, ui

HIGHEST = 2_147_483_647
"""Highest integer in Postgres."""
_LONGEST_MOVES = 20_000  # characters
_MOST_NAMED = 20


def asked_actions(visit: Visit, game: str) -> list[int]:
    """Return the actions that ``moves`` names, from the start of a game.

    Raises:
        NothingThereError: the rules forbid an action, or there are too many.
    """
    moves = visit.parameters.get("moves", "")
    if len(moves) > _LONGEST_MOVES:
        raise NothingThereError(
            f"moves has {len(moves):,} characters: give at most {_LONGEST_MOVES:,}"
        )
    try:
        return parse_actions(game, moves)
    except IllegalActionError as error:
        raise NothingThereError(f"moves={moves[:80]}: {error}") from error


def asked_choice(visit: Visit, name: str, known: Iterable[str], default: str) -> str:
    """Return one of several values, or the default if the address has none of them.

    A note on the page says when the default replaces the value in the address.
    """
    value = visit.parameters.get(name) or default
    if value != default and value not in known:
        visit.note(
            f"{name}={value[:80]} does not exist. {default} is used instead. {there_are(known)}"
        )
        return default
    return value


def there_are(known: Iterable[object]) -> str:
    """Return a sentence with the values that can be chosen."""
    named = [str(each) for each in known]
    more = ", ..." if len(named) > _MOST_NAMED else ""
    return f"Choose from: {', '.join(named[:_MOST_NAMED])}{more}." if named else "None exist yet."


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


def asked_number(parameters: Mapping[str, str], name: str) -> int | None:
    """Return a whole number that fits an integer of Postgres; None without the parameter.

    Raises:
        NothingThereError: the value is not such a number.
    """
    value = parameters.get(name, "")
    if not value:
        return None
    number = whole_number(value, HIGHEST)
    if number is None:
        raise NothingThereError(f"{name}={value[:80]}: give a whole number up to {HIGHEST:,}")
    return number
