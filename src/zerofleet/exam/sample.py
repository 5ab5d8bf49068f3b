"""The exam of Connect Four: a fixed seeded sample of positions, labelled by the exact solver.

Each position comes from random legal play of ``_FIRST_PLY`` to ``_LAST_PLY`` plies, is not over,
and offers at least two actions whose outcomes under perfect play differ, so that an error is
possible. Positions that differ only by the mirror count once.
"""

from __future__ import annotations

import asyncio
import functools
import random
import threading
from dataclasses import dataclass

from zerofleet_core import State, connect_four_action_outcomes, transform_observation

from zerofleet.exam.examined_player import ExaminedPlayer

_GAME = "connect_four"
_FIRST_PLY = 10
_LAST_PLY = 30


@dataclass(frozen=True, slots=True)
class LabelledPosition:
    """A position and what perfect play makes of each action in it."""

    actions: tuple[int, ...]  # played so far
    outcomes: tuple[int | None, ...]  # [num_actions] for the player to move; None: illegal

    def is_error(self, action: int) -> bool:
        """Whether another action would have kept a better outcome of the game."""
        best = max(outcome for outcome in self.outcomes if outcome is not None)
        return self.outcomes[action] != best


async def connect_four_sample(size: int, seed: int) -> tuple[LabelledPosition, ...]:
    """The sample of ``size`` positions; each is labelled once in a process.

    A thread labels one position at a time, so that a cancelled exam ends within that position.
    """
    sample = _sample_of(seed)
    while len(sample.positions) < size:
        await asyncio.to_thread(sample.grow)
    return tuple(sample.positions[:size])


async def count_errors(player: ExaminedPlayer, sample: tuple[LabelledPosition, ...]) -> int:
    """In how many positions of the sample the player throws an outcome away."""
    chosen = await player.choose([position.actions for position in sample])
    return sum(position.is_error(action) for position, action in zip(sample, chosen, strict=True))


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
            if state.is_terminal or _key(state) in self._seen:
                return
            self._seen.add(_key(state))
            outcomes = connect_four_action_outcomes(actions)
            if len({outcome for outcome in outcomes if outcome is not None}) > 1:
                self.positions.append(LabelledPosition(tuple(actions), tuple(outcomes)))


@functools.cache
def _sample_of(seed: int) -> _Sample:
    return _Sample(seed)


def _random_position(generator: random.Random) -> tuple[list[int], State]:
    state = State(_GAME)
    actions: list[int] = []
    for _ in range(generator.randint(_FIRST_PLY, _LAST_PLY)):
        if state.is_terminal:
            break
        action = generator.choice(state.legal_actions())
        state.apply(action)
        actions.append(action)
    return actions, state


def _key(state: State) -> bytes:
    observation = state.observation()
    mirrored = transform_observation(_GAME, observation, 1)
    return min(observation.tobytes(), mirrored.tobytes())
