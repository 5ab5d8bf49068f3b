"""The exam of Connect Four: a fixed seeded sample of positions, labelled by the exact solver.

Each position comes from random legal play of ``_FIRST_PLY`` to ``_LAST_PLY`` plies, is not over,
and offers at least two actions whose outcomes under perfect play differ, so that an error is
possible. Positions that differ only by the mirror count once. ``good_play`` has a second kind.
"""

from __future__ import annotations

import asyncio
import functools
import random
import statistics
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from zerofleet_core import State, connect_four_action_outcomes, transform_observation

from zerofleet.database import WrongAnswer
from zerofleet.exam.examined_player import ExaminedPlayer
from zerofleet.games import format_actions

GAME = "connect_four"
_FIRST_PLY = 10
_LAST_PLY = 30


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


async def connect_four_sample(size: int, seed: int) -> tuple[LabelledPosition, ...]:
    """The sample of ``size`` positions; each is labelled once in a process.

    A thread labels one position at a time, so that a cancelled exam ends within that position.
    """
    sample = _sample_of(seed)
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
    """The positions of one seed, in the order in which they were drawn."""

    def __init__(self, seed: int) -> None:
        self.positions: list[LabelledPosition] = []
        self._generator = random.Random(seed)
        self._seen: set[bytes] = set()
        self._one_at_a_time = threading.Lock()

    def grow(self) -> None:
        """Draw one more position; those that allow no error are passed over."""
        with self._one_at_a_time:
            actions, state = _random_position(self._generator)
            key = mirror_key(state)
            if state.is_terminal or key in self._seen:
                return
            self._seen.add(key)
            outcomes = connect_four_action_outcomes(actions)
            position = LabelledPosition(tuple(actions), tuple(outcomes))
            if position.allows_error:
                self.positions.append(position)


@functools.cache
def _sample_of(seed: int) -> _Sample:
    return _Sample(seed)


def _random_position(generator: random.Random) -> tuple[list[int], State]:
    state = State(GAME)
    actions: list[int] = []
    for _ in range(generator.randint(_FIRST_PLY, _LAST_PLY)):
        if state.is_terminal:
            break
        action = generator.choice(state.legal_actions())
        state.apply(action)
        actions.append(action)
    return actions, state


def mirror_key(state: State) -> bytes:
    """The same for a position and its mirror image."""
    observation = state.observation()
    mirrored = transform_observation(GAME, observation, 1)
    return min(observation.tobytes(), mirrored.tobytes())
