"""Whole games of Connect Four from the start against the exact solver.

The first player wins under perfect play (Allen 1988, Allis 1988), so a player that begins should
win every game. A player that moves second should keep what the other's first action left it. The
solver plays one of its best actions with equal probability, by one of two definitions:

- ``evenly``: every action that keeps the outcome. In a lost position, that is any action.
- ``longest``: every action that keeps the score. In a lost position, the solver delays its defeat
  for as long as it can; in a won one, it wins as soon as it can.

Perfect play of the first plies comes from a file of scores. The solver needs a second for the score
of six plies, several seconds for five, and most of a minute for the empty board. The file has a
line for each position of six plies, mirrored positions once: the actions that lead there and the
score (``connect_four_score``). The scores of all earlier positions follow from these.
``write_opening_scores`` solves all of these positions again, which takes hours, and overwrites the
file.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from zerofleet_core import (
    State,
    connect_four_action_outcomes,
    connect_four_best_actions,
    connect_four_outcome,
    connect_four_score,
)

from zerofleet.exam.examined_player import ExaminedPlayer
from zerofleet.exam.sample import GAME, LabelledPosition, symmetry_key

SolverChoice = Literal["evenly", "longest"]
"""Rule by which the solver chooses among its actions."""
SOLVER_CHOICES: tuple[SolverChoice, ...] = ("evenly", "longest")

KEPT_PLIES = 6
"""Positions of up to this many actions are scored without the solver; nobody has won by then."""
_FILE = Path(__file__).with_name("opening_scores.txt")


@dataclass(frozen=True, slots=True)
class PerfectPlay:
    """Results of a player's games against the solver."""

    games: int
    wins: int
    draws: int
    kept: int  # games that ended no worse than under perfect play
    given_away: int  # actions of the player that gave up a better outcome


@dataclass(slots=True)
class _Game:
    """A game that the player continues; values are for the player, whoever moves."""

    state: State
    actions: list[int]
    promised: int  # under perfect play, when the player began
    value: int  # under perfect play from here on
    given_away: int = 0

    @classmethod
    def after(cls, actions: Sequence[int]) -> _Game:
        value = _outcome(tuple(actions))
        return cls(State(GAME, actions), list(actions), value, value)

    def play(self, action: int) -> None:
        self.state.apply(action)
        self.actions.append(action)

    def reckon(self) -> None:
        """Update the value after the player's last action."""
        ended = self.state.is_terminal  # then the last mover has not lost
        value = abs(self.state.result) if ended else -_outcome(tuple(self.actions))
        self.given_away += value < self.value
        self.value = value

    def reply(self, choice: SolverChoice, generator: random.Random) -> None:
        """Play one of the solver's best actions."""
        if self.value == 1 and choice == "evenly":  # all actions lose, and are equal
            actions = self.state.legal_actions()
        else:
            actions = _best_actions(tuple(self.actions), choice)
        self.play(generator.choice(actions))


async def play_first(
    player: ExaminedPlayer, games: int, choice: SolverChoice = "evenly", seed: int = 1
) -> PerfectPlay:
    """Play this many games in which the player begins; see ``play_from``."""
    return await play_from(player, [()] * games, choice, seed)


async def play_second(
    player: ExaminedPlayer, games: int, choice: SolverChoice = "evenly", seed: int = 1
) -> PerfectPlay:
    """Play games in which the solver begins, this many from each column; see ``play_from``."""
    columns = State(GAME).legal_actions()
    positions = [(column,) for column in columns for _ in range(games)]
    return await play_from(player, positions, choice, seed)


async def play_from(
    player: ExaminedPlayer,
    positions: Sequence[Sequence[int]],
    choice: SolverChoice = "evenly",
    seed: int = 1,
) -> PerfectPlay:
    """Play a game against the solver from each position, in which the player is to move.

    Args:
        player: a player that always answers the same position the same way.
        positions: each a list of actions from the start.
        choice: how the solver chooses among its actions.
        seed: seed of the solver's replies.
    """
    begun: list[_Game] = [await asyncio.to_thread(_Game.after, each) for each in positions]
    generator = random.Random(seed)
    going: list[_Game] = list(begun)
    while going:
        # Many games are the same at first; each position is searched once.
        open_positions = sorted({tuple(game.actions) for game in going})
        answers = dict(zip(open_positions, await player.choose(open_positions), strict=True))
        for game in going:
            game.play(answers[tuple(game.actions)])
            # A thread for each, so that this loop's other tasks do not wait for minutes.
            await asyncio.to_thread(game.reckon)
            if not game.state.is_terminal:
                await asyncio.to_thread(game.reply, choice, generator)
                if game.state.is_terminal:
                    game.value = -abs(game.state.result)
        going = [game for game in going if not game.state.is_terminal]
    return PerfectPlay(
        games=len(begun),
        wins=sum(game.value == 1 for game in begun),
        draws=sum(game.value == 0 for game in begun),
        kept=sum(game.value >= game.promised for game in begun),
        given_away=sum(game.given_away for game in begun),
    )


@functools.lru_cache(maxsize=100_000)
def _best_actions(actions: tuple[int, ...], choice: SolverChoice) -> list[int]:
    """Return the best actions of the player to move; cached, because games share beginnings."""
    if choice == "longest":
        return best_actions(actions)
    return LabelledPosition(actions, tuple(action_outcomes(actions))).best_actions


@functools.lru_cache(maxsize=100_000)
def _outcome(actions: tuple[int, ...]) -> int:
    """Return the outcome for the player to move; early plies outside the file take seconds."""
    return outcome(actions)


def outcome(actions: Sequence[int]) -> int:
    """Return the outcome of perfect play after these actions, for the player to move.

    It is +1, 0 or -1.
    """
    if len(actions) > KEPT_PLIES:
        return connect_four_outcome(actions)
    return _sign(_opening_scores()[_key(actions)])


def action_outcomes(actions: Sequence[int]) -> list[int | None]:
    """Return the outcome of each next action, for the player to move; None where it is illegal."""
    if len(actions) >= KEPT_PLIES:
        return connect_four_action_outcomes(actions)
    return [_sign(score) for score in _action_scores(actions)]


def best_actions(actions: Sequence[int]) -> list[int]:
    """Return the actions that keep the score: they win soonest, or resist longest."""
    if len(actions) >= KEPT_PLIES:
        return connect_four_best_actions(actions)
    scores = _action_scores(actions)
    return [action for action, score in enumerate(scores) if score == max(scores)]


def _action_scores(actions: Sequence[int]) -> list[int]:
    """Return the scores of all seven actions; no column is full before ``KEPT_PLIES``."""
    return [
        -_opening_scores()[_key([*actions, action])]
        for action in State(GAME, actions).legal_actions()
    ]


def _sign(score: int) -> int:
    return (score > 0) - (score < 0)


def _key(actions: Sequence[int]) -> bytes:
    return symmetry_key(State(GAME, actions))


@functools.cache
def _opening_scores() -> dict[bytes, int]:
    """Return the score of each position of up to ``KEPT_PLIES`` actions, for the player to move."""
    *earlier, last = _levels()
    lines = _FILE.read_text(encoding="ascii").splitlines()
    scores = {key: int(line.split(" ")[1]) for key, line in zip(last, lines, strict=True)}
    for level in reversed(earlier):
        scores |= {
            key: max(-scores[after] for after in found.after) for key, found in level.items()
        }
    return scores


@dataclass(frozen=True, slots=True)
class _OpeningPosition:
    """A position by the first way to it, and the keys of the positions one action later."""

    actions: list[int]
    after: list[bytes] = field(default_factory=list[bytes])


def _levels() -> list[dict[bytes, _OpeningPosition]]:
    """Return the positions of 0, 1, ... ``KEPT_PLIES`` actions by key, the last in file order."""
    levels = [{_key([]): _OpeningPosition([])}]
    for _ in range(KEPT_PLIES):
        found: dict[bytes, _OpeningPosition] = {}
        for position in levels[-1].values():
            for action in State(GAME, position.actions).legal_actions():
                actions = [*position.actions, action]
                position.after.append(_key(actions))
                found.setdefault(position.after[-1], _OpeningPosition(actions))
        levels.append(found)
    return levels


def write_opening_scores() -> None:
    """Solve all positions again and write them to the file of this package."""
    lines = [each.actions for each in _levels()[-1].values()]
    text = "".join(f"{''.join(map(str, each))} {connect_four_score(each)}\n" for each in lines)
    _FILE.write_text(text, encoding="ascii")
