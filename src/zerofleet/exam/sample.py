"""The exam of Connect Four: a fixed seeded sample of positions, labelled by the exact solver.

Each position comes from random legal play of ``_FIRST_PLY`` to ``_LAST_PLY`` plies, is not over,
and offers at least two actions whose outcomes under perfect play differ, so that an error is
possible. Positions that differ only by the mirror count once.
"""

from __future__ import annotations

import asyncio
import functools
import random
from dataclasses import dataclass

from zerofleet_core import State, connect_four_action_outcomes, transform_observation

from zerofleet.exam.player import Player

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
    """The sample of ``size`` positions; labelled once in a process, in a thread of its own."""
    return await asyncio.to_thread(_labelled_sample, size, seed)


async def count_errors(player: Player, sample: tuple[LabelledPosition, ...]) -> int:
    """In how many positions of the sample the player throws an outcome away."""
    chosen = await player.choose([position.actions for position in sample])
    return sum(position.is_error(action) for position, action in zip(sample, chosen, strict=True))


@functools.cache
def _labelled_sample(size: int, seed: int) -> tuple[LabelledPosition, ...]:
    generator = random.Random(seed)
    sample: list[LabelledPosition] = []
    seen: set[bytes] = set()
    while len(sample) < size:
        actions, state = _random_position(generator)
        if state.is_terminal or _key(state) in seen:
            continue
        seen.add(_key(state))
        outcomes = connect_four_action_outcomes(actions)
        if len({outcome for outcome in outcomes if outcome is not None}) > 1:
            sample.append(LabelledPosition(tuple(actions), tuple(outcomes)))
    return tuple(sample)


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
