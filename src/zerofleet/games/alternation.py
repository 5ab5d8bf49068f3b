"""Moves of given colours in games where the players take turns."""

from __future__ import annotations

from zerofleet_core import State

from zerofleet.errors import IllegalActionError
from zerofleet.games.notation import why_illegal

COLOURS = ("black", "white")  # by player


def play_as(state: State, player: int, action: int, word: str = "") -> list[int]:
    """Play an action for a player, whose turn it need not be, and answer what was played.

    A player who moves out of turn (handicap stones, positions set up by hand) moves after a pass
    of the other one, where the rules have a pass and it does not end the game.

    Args:
        state: the action is played there.
        player: 0 or 1.
        action: of this player.
        word: as a person wrote the action, for the error.

    Raises:
        IllegalActionError: neither is possible; the state is as it was.
    """
    trial = state.copy()
    played: list[int] = []
    if trial.is_terminal:
        raise IllegalActionError(f"the game is over after {trial.ply} plies")
    if trial.to_play != player:
        played.append(_pass_turn(trial, player))
    try:
        trial.apply(action)
    except ValueError as error:
        reason = why_illegal(trial, action, word) if word else str(error)
        raise IllegalActionError(reason) from error
    played.append(action)
    for each in played:
        state.apply(each)
    return played


def _pass_turn(state: State, player: int) -> int:
    """Pass for the player whose turn it is, so that ``player`` moves next."""
    other = COLOURS[state.to_play]
    try:
        passing = state.string_to_action("pass")
        state.apply(passing)
    except ValueError as error:
        raise IllegalActionError(
            f"it is {other}'s turn, and {other} cannot pass here: {error}"
        ) from error
    if state.is_terminal or state.to_play != player:
        raise IllegalActionError(
            f"it is {other}'s turn, and a pass of {other} would end the game here"
        )
    return passing
