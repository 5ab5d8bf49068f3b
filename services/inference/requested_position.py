"""Positions as clients send them: the actions from the start of the game."""

from __future__ import annotations

from dataclasses import dataclass

from zerofleet import games
from zerofleet.errors import ConfigError, InvalidRequestError
from zerofleet.games import sgf
from zerofleet.rpc.player_service import Actions, Sgf


@dataclass(frozen=True, slots=True)
class RequestedPosition:
    """A position that is not terminal, and how it came about."""

    state: games.State
    actions: tuple[int, ...]  # from the start


def replay(game: str, actions: Actions) -> RequestedPosition:
    """The position after those actions.

    Raises:
        InvalidRequestError: an action that the rules forbid (named with its ply), a game that is
            over, or an SGF that is not of this game.
    """
    if isinstance(actions, Sgf):
        actions = _read_sgf(game, actions.text)
    state = games.State(game)
    played: list[int] = []
    for ply, action in enumerate(actions):
        if state.is_terminal:
            raise InvalidRequestError(
                f"ply {ply}: action {action!r} comes after the end: {_outcome(state)}"
            )
        try:
            number = state.string_to_action(action) if isinstance(action, str) else action
            state.apply(number)
        except ValueError as error:
            raise InvalidRequestError(f"ply {ply}: illegal action {action!r}: {error}") from error
        except TypeError as error:
            raise InvalidRequestError(f"ply {ply}: {action!r} is not an action") from error
        played.append(number)
    if state.is_terminal:
        raise InvalidRequestError(
            f"the game is over after {state.ply} plies, {_outcome(state)}: nothing is left to play"
        )
    return RequestedPosition(state, tuple(played))


def _read_sgf(game: str, file: str | bytes) -> list[int]:
    try:
        return sgf.read(file, game).actions
    except ConfigError as error:
        raise InvalidRequestError(str(error)) from error


def _outcome(state: games.State) -> str:
    return {1: "the first player won", -1: "the second player won"}.get(state.result, "a draw")
