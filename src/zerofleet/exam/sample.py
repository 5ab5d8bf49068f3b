"""Exams by samples: fixed seeded positions of a game, labelled by its exact solver.

Each position comes from random legal play, in Connect Four to 10 to 30 discs, in Othello to the
last 6 to 12 empty squares. It is not over, and offers at least two actions whose outcomes under
perfect play differ, so that an error is possible. Positions that differ only by a symmetry of the
board count once. ``good_play`` has a second kind for Connect Four.
"""

from __future__ import annotations

import asyncio
import functools
import random
import statistics
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from zerofleet_core import (
    State,
    connect_four_action_outcomes,
    game_spec,
    othello_action_outcomes,
    transform_observation,
)

from zerofleet.database import WrongAnswer
from zerofleet.exam.examined_player import ExaminedPlayer
from zerofleet.games import format_actions

GAME = "connect_four"
"""The game of the exams that know one game alone."""


@dataclass(frozen=True, slots=True)
class _SolvedGame:
    """How positions of a game are drawn and labelled."""

    least_discs: int
    most_discs: int  # on the board, both players'
    action_outcomes: Callable[[Sequence[int]], Sequence[int | None]]


_SOLVED = {
    "connect_four": _SolvedGame(10, 30, connect_four_action_outcomes),
    "othello": _SolvedGame(52, 58, othello_action_outcomes),
}


@dataclass(frozen=True, slots=True)
class LabelledPosition:
    """A position and what perfect play makes of each action in it."""

    actions: tuple[int, ...]  # played so far
    outcomes: tuple[int | None, ...]  # [num_actions] for the player to move; None: illegal

    @property
    def value(self) -> int:
        """The outcome of perfect play, for the player to move."""
        return max(outcome for outcome in self.outcomes if outcome is not None)

    @property
    def best_actions(self) -> list[int]:
        """Those with the best outcome."""
        return [action for action, each in enumerate(self.outcomes) if each == self.value]

    @property
    def allows_error(self) -> bool:
        """Whether two actions differ in their outcome."""
        return len({outcome for outcome in self.outcomes if outcome is not None}) > 1

    def is_error(self, action: int) -> bool:
        """Whether another action would have kept a better outcome of the game."""
        return self.outcomes[action] != self.value


async def random_sample(game: str, size: int, seed: int) -> tuple[LabelledPosition, ...]:
    """The sample of ``size`` positions of ``game``; each is labelled once in a process.

    A thread labels one position at a time, so that a cancelled exam ends within that position.
    """
    sample = _sample_of(game, seed)
    while len(sample.positions) < size:
        await asyncio.to_thread(sample.grow)
    return tuple(sample.positions[:size])


@dataclass(frozen=True, slots=True)
class Answers:
    """What a player made of a sample."""

    chosen: tuple[int, ...]  # [positions] its action in each
    wrong: tuple[bool, ...]  # [positions] whether it threw an outcome away
    prior_errors: int  # positions in which the best action by the prior alone does
    value_error: float  # mean square of the root's value less the outcome of perfect play


async def answer(player: ExaminedPlayer, sample: Sequence[LabelledPosition]) -> Answers:
    """Have the player search every position of the sample."""
    results = await player.search([position.actions for position in sample])
    pairs = list(zip(sample, results, strict=True))
    return Answers(
        tuple(result.best_action for result in results),
        tuple(position.is_error(result.best_action) for position, result in pairs),
        sum(
            position.is_error(int(result.actions[result.priors.argmax()]))
            for position, result in pairs
        ),
        statistics.fmean((result.root_value - position.value) ** 2 for position, result in pairs),
    )


def wrong_answer(
    game: str, actions: Sequence[int], played: int, right: Sequence[int]
) -> WrongAnswer:
    """A position that the player erred in, in the game's notation."""
    state = State(game, actions)
    return WrongAnswer(
        format_actions(game, actions),
        state.action_to_string(played),
        tuple(map(state.action_to_string, right)),
    )


class _Sample:
    """A game's positions of one seed, in the order in which they were drawn."""

    def __init__(self, game: str, seed: int) -> None:
        self.positions: list[LabelledPosition] = []
        self._game = game
        self._generator = random.Random(seed)
        self._seen: set[bytes] = set()
        self._one_at_a_time = threading.Lock()

    def grow(self) -> None:
        """Draw one more position; those that allow no error are passed over."""
        with self._one_at_a_time:
            actions, state = self._random_position()
            key = symmetry_key(state)
            if state.is_terminal or key in self._seen:
                return
            self._seen.add(key)
            outcomes = _SOLVED[self._game].action_outcomes(actions)
            position = LabelledPosition(tuple(actions), tuple(outcomes))
            if position.allows_error:
                self.positions.append(position)

    def _random_position(self) -> tuple[list[int], State]:
        solved = _SOLVED[self._game]
        state = State(self._game)
        actions: list[int] = []
        discs = self._generator.randint(solved.least_discs, solved.most_discs)
        while not state.is_terminal and _discs(state) < discs:
            action = self._generator.choice(state.legal_actions())
            state.apply(action)
            actions.append(action)
        return actions, state


@functools.cache
def _sample_of(game: str, seed: int) -> _Sample:
    return _Sample(game, seed)


def _discs(state: State) -> int:
    """On the board: the first two planes are those of the two players."""
    points = game_spec(state.game).board_points
    return int(np.unpackbits(state.observation())[: 2 * points].sum())


def symmetry_key(state: State) -> bytes:
    """The same for a position and its images under the symmetries of the board."""
    observation = state.observation()
    symmetries = range(game_spec(state.game).num_symmetries)
    images = (transform_observation(state.game, observation, each) for each in symmetries)
    return min(image.tobytes() for image in images)
