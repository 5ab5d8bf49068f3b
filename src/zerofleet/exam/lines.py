"""The exam of a small game: every line of play of any opponent, with the player as both colours.

The player's answer to a position never varies, so the games that it can meet form a tree that
branches only where the opponent moves. All positions of a ply are searched together, and each
distinct position once, however many games lead to it.

An error is a line that the player loses through a mistake of its own: it lost, and could have
avoided that in a position of this line. In tic-tac-toe that is every line lost. In a game that one
side loses under perfect play, it is a line in which the opponent made a mistake first.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from zerofleet_core import State

from zerofleet.database import WrongAnswer
from zerofleet.exam.examined_player import ExaminedPlayer
from zerofleet.exam.sample import wrong_answer

MOST_POSITIONS = 10_000
"""Largest number of positions of a game whose lines are examined."""
_MOST_LINES = (1 << 31) - 1  # the column exams.positions is an integer


@dataclass(frozen=True, slots=True)
class Walk:
    """Finished games of a walk through a game, and how many of them the player lost by mistake."""

    finished: int
    lost: int
    answers: tuple[tuple[tuple[int, ...], int], ...] = ()
    """Each position that the player met, as the actions that lead there, with its answer."""


@dataclass(frozen=True, slots=True)
class _Position:
    """A position and one way to reach it; ``key`` is the same for every way."""

    state: State
    actions: tuple[int, ...] = ()
    key: bytes = field(init=False)

    def __post_init__(self) -> None:
        # With the ply no game has a cycle. The observation of an end need not show its result.
        state = self.state
        place = f"{len(self.actions)} {state.to_play} {state.is_terminal} {state.result} ".encode()
        object.__setattr__(self, "key", place + state.observation().tobytes())

    def after(self, action: int) -> _Position:
        state = self.state.copy()
        state.apply(action)
        return _Position(state, (*self.actions, action))

    def replies(self) -> Iterator[_Position]:
        return map(self.after, self.state.legal_actions())


def is_small(game: str) -> bool:
    """Return whether a game has few enough positions to examine every line of play."""
    return _first_player_values(game) is not None


async def walk_lines(player: ExaminedPlayer) -> Walk:
    """Play against every line of the opponent, as the first player and as the second.

    The player's game must be small.
    """
    values = _values(player.game)
    start = _Position(State(player.game))
    answers: list[tuple[tuple[int, ...], int]] = []
    finished = lost = 0
    # By colour, position, and whether the player could have avoided to lose: the number of lines.
    ply = {(colour, start.key, False): (start, 1) for colour in (0, 1)}
    while ply:
        asked = {key: each for (colour, key, _), (each, _) in ply.items() if _moves(each, colour)}
        chosen = await player.choose([each.actions for each in asked.values()]) if asked else []
        ours = dict(zip(asked, chosen, strict=True))
        answers += [(asked[key].actions, action) for key, action in ours.items()]
        following: dict[tuple[int, bytes, bool], tuple[_Position, int]] = {}
        for (colour, key, safe), (position, lines) in ply.items():
            is_ours = _moves(position, colour)
            stood = safe or (is_ours and _worth(values[key], colour) >= 0)
            for after in [position.after(ours[key])] if is_ours else position.replies():
                if after.state.is_terminal:
                    finished += lines
                    lost += lines * (stood and _worth(after.state.result, colour) < 0)
                    continue
                place = (colour, after.key, stood)
                following[place] = (after, lines + following.get(place, (after, 0))[1])
        ply = following
    return Walk(finished, lost, tuple(answers))


def wrong_lines(
    game: str, answers: Sequence[tuple[tuple[int, ...], int]]
) -> tuple[WrongAnswer, ...]:
    """Return the positions whose answer loses, where another action does not.

    Args:
        game: game of the walk.
        answers: each position, as the actions that lead there, with the player's answer.
    """
    found: list[WrongAnswer] = []
    values = _values(game)
    for actions, chosen in answers:
        position = _Position(State(game, actions), actions)
        mover = position.state.to_play
        keeping = [
            action
            for action in position.state.legal_actions()
            if _worth(values[position.after(action).key], mover) >= 0
        ]
        if keeping and chosen not in keeping:
            found.append(wrong_answer(game, actions, chosen, keeping))
    return tuple(found)


def _moves(position: _Position, colour: int) -> bool:
    return position.state.to_play == colour


def _worth(value: int, colour: int) -> int:
    """Return an outcome of the first player for a player."""
    return value if colour == 0 else -value


def _values(game: str) -> Mapping[bytes, int]:
    values = _first_player_values(game)
    assert values is not None, f"{game} has too many positions"
    return values


@functools.cache
def _first_player_values(game: str) -> Mapping[bytes, int] | None:
    """Return the outcome of perfect play for the first player by key; None for a large game.

    A game of a hundred thousand positions is noticed after ``MOST_POSITIONS`` of them.
    """
    start = _Position(State(game))
    plies = [{start.key: start}]
    lines = {start.key: 1}  # number of lines that lead to each position
    children: dict[bytes, list[bytes]] = {}
    known = finished = 0
    while plies[-1]:
        following: dict[bytes, _Position] = {}
        known += len(plies[-1])
        for key, position in plies[-1].items():
            if position.state.is_terminal:
                finished += lines[key]
                continue
            if known + len(following) > MOST_POSITIONS or finished > _MOST_LINES:
                return None
            after = list(position.replies())
            children[key] = [each.key for each in after]
            for each in after:
                following.setdefault(each.key, each)
                lines[each.key] = lines.get(each.key, 0) + lines[key]
        plies.append(following)
    if finished > _MOST_LINES:
        return None
    values: dict[bytes, int] = {}
    for ply in reversed(plies):
        for key, position in ply.items():
            if position.state.is_terminal:
                values[key] = position.state.result
            else:
                best = max if position.state.to_play == 0 else min
                values[key] = best(values[child] for child in children[key])
    return values
