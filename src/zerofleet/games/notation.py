"""Lines of actions as a person writes them."""

from __future__ import annotations

from collections.abc import Iterable

from zerofleet_core import State

from zerofleet.errors import IllegalActionError
from zerofleet.games.registry import spec


def parse_actions(game: str, text: str) -> list[int]:
    """Read a line of actions from the start, separated by spaces, and check it under the rules.

    Actions are written as the game prints them. Where the game's own notation is not a number, as
    in tic-tac-toe, the number of an action does too: ``"b2 a1"`` and ``"4 0"`` are the same line.

    Raises:
        ConfigError: no such game.
        IllegalActionError: an entry that is no action or is illegal in its position; the message
            names the ply and the entry.
    """
    spec(game)
    state = State(game)
    actions: list[int] = []
    for ply, entry in enumerate(text.split()):
        try:
            action = _read(state, entry)
            state.apply(action)
        except ValueError as error:
            raise IllegalActionError(f"ply {ply}: {entry!r}: {error}") from error
        actions.append(action)
    return actions


def format_actions(game: str, actions: Iterable[int]) -> str:
    """Write a line of actions so that ``parse_actions`` reads it.

    Raises:
        ConfigError: no such game.
        ValueError: an action that is illegal in its position.
    """
    spec(game)
    state = State(game)
    words: list[str] = []
    for action in actions:
        words.append(state.action_to_string(action))
        state.apply(action)
    return " ".join(words)


def _read(state: State, entry: str) -> int:
    if entry.isdecimal() and not state.action_to_string(0).isdecimal():
        return int(entry)
    return state.string_to_action(entry)
