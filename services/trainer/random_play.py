"""Positions that need no games yet: those of random play."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from zerofleet_core import GameSpec, State


def random_positions(
    spec: GameSpec, positions: int, generator: np.random.Generator
) -> NDArray[np.uint8]:
    """Every position of game after game of random moves: ``[positions, observation_bytes]``.

    Args:
        spec: the game.
        positions: how many.
        generator: draws the moves.
    """
    played = np.empty((positions, spec.observation_bytes), np.uint8)
    state = State(spec.name)
    for row in played:
        if state.is_terminal:
            state = State(spec.name)
        row[:] = state.observation()
        state.apply(int(generator.choice(state.legal_actions())))
    return played
