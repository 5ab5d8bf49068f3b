"""Whole games of Connect Four from the start against the exact solver.

The first player wins under perfect play (Allen 1988, Allis 1988), so a player that begins should
win every game; one that answers should keep what the other's first action left it. The solver plays
one of its best actions, all of them equally likely, and there are two opinions of what is best:

- ``evenly``: every action that keeps the outcome. Where the solver is lost, that is any action.
- ``longest``: every action that keeps the score. Where the solver is lost, it delays its defeat for
  as long as it can; where it wins, it does so as soon as it can.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from zerofleet_core import State

from zerofleet.exam.examined_player import ExaminedPlayer
from zerofleet.exam.opening_scores import action_outcomes, best_actions, outcome
from zerofleet.exam.sample import GAME, LabelledPosition

SolverChoice = Literal["evenly", "longest"]
"""How the solver chooses among its actions."""
SOLVER_CHOICES: tuple[SolverChoice, ...] = ("evenly", "longest")


@dataclass(frozen=True, slots=True)
class PerfectPlay:
    """How a player's games against the solver ended."""

    games: int
    wins: int
    draws: int
    kept: int  # that ended no worse than perfect play would have had them end
    given_away: int  # actions of the player that let go of a better outcome


@dataclass(slots=True)
class _Game:
    """A game that the player goes on with; values are for the player, whoever moves."""

    state: State
    actions: list[int]
    promised: int  # by perfect play, when the player began
    value: int  # by perfect play from here on
    given_away: int = 0

    @classmethod
    def after(cls, actions: Sequence[int]) -> _Game:
        value = _outcome(tuple(actions))
        return cls(State(GAME, actions), list(actions), value, value)

    def play(self, action: int) -> None:
        self.state.apply(action)
        self.actions.append(action)

    def reckon(self) -> None:
        """Note what the player's last action made of the game."""
        ended = self.state.is_terminal  # then who moved last has not lost
        value = abs(self.state.result) if ended else -_outcome(tuple(self.actions))
        self.given_away += value < self.value
        self.value = value

    def reply(self, choice: SolverChoice, generator: random.Random) -> None:
        """One of the solver's best actions."""
        if self.value == 1 and choice == "evenly":  # all are lost, and equal
            actions = self.state.legal_actions()
        else:
            actions = _best_actions(tuple(self.actions), choice)
        self.play(generator.choice(actions))


async def play_first(
    player: ExaminedPlayer, games: int, choice: SolverChoice = "evenly", seed: int = 1
) -> PerfectPlay:
    """So many games in which the player begins; see ``play_from``."""
    return await play_from(player, [()] * games, choice, seed)


async def play_second(
    player: ExaminedPlayer, games: int, choice: SolverChoice = "evenly", seed: int = 1
) -> PerfectPlay:
    """Games in which the solver begins, so many from each column; see ``play_from``."""
    columns = State(GAME).legal_actions()
    positions = [(column,) for column in columns for _ in range(games)]
    return await play_from(player, positions, choice, seed)


async def play_from(
    player: ExaminedPlayer,
    positions: Sequence[Sequence[int]],
    choice: SolverChoice = "evenly",
    seed: int = 1,
) -> PerfectPlay:
    """A game against the solver from each position, in which the player is to move.

    Args:
        player: whose answer to a position is always the same.
        positions: each a list of actions from the start.
        choice: how the solver chooses among its actions.
        seed: of the solver's replies.
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
            # A thread for each, so that whatever else this loop serves is not kept for minutes.
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
    """Of the player to move; many games begin alike."""
    if choice == "longest":
        return best_actions(actions)
    return LabelledPosition(actions, tuple(action_outcomes(actions))).best_actions


@functools.lru_cache(maxsize=100_000)
def _outcome(actions: tuple[int, ...]) -> int:
    """For the player to move; the first plies that are not in the file cost seconds."""
    return outcome(actions)
