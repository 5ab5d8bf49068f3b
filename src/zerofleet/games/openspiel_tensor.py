"""OpenSpiel's tensors as binary planes."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from zerofleet.games.openspiel_api import SpielGame, SpielState

_MOST_STEPS = 8


class Tensor:
    """Reads a game's observation tensor as planes: ``shape`` is (planes, rows, columns).

    A tensor ``[c, h, w]`` stays as it is; ``[c, n]`` becomes ``[c, s, s]`` where n is s squared,
    else ``[c, 1, n]``; ``[n]`` becomes n planes of one point; what has more dimensions keeps its
    last two. A game without an observation tensor shows its information state's.
    """

    def __init__(self, game: SpielGame) -> None:
        self._observes = game.get_type().provides_observation_tensor
        sizes = (
            game.observation_tensor_shape()
            if self._observes
            else game.information_state_tensor_shape()
        )
        self.shape = _as_planes(sizes)

    def read(self, state: SpielState, player: int) -> NDArray[np.float32]:
        """The planes of a position as a player (OpenSpiel's number) sees them, ``shape``."""
        values = (
            state.observation_tensor(player)
            if self._observes
            else state.information_state_tensor(player)
        )
        return np.array(values, np.float32).reshape(self.shape)


class PlaneCode:
    """Makes planes binary, and adds one plane: ones when the second player is to play.

    A plane that held nothing but 0 and 1 in the sample stays one plane. Any other one, such as a
    counter, becomes a thermometer: plane i is 1 where the value is above the i-th of at most 8
    steps, which lie between neighbours among the values seen; of more than 8, evenly chosen ones.

    Args:
        values: of each plane, those seen besides 0 and 1.
        shape: of the tensor, (planes, rows, columns).
    """

    def __init__(self, values: list[set[float]], shape: tuple[int, int, int]) -> None:
        steps = [(plane, step) for plane, seen in enumerate(values) for step in _steps(seen)]
        self.source = np.array([plane for plane, _ in steps], np.intp)  # [planes - 1]
        self._step = np.array([step for _, step in steps], np.float32)[:, None, None]
        self.shape = (len(steps) + 1, *shape[1:])

    def encode(self, planes: NDArray[np.float32], to_play: int) -> NDArray[np.bool_]:
        """A position's binary planes, ``shape``."""
        coded = np.empty(self.shape, np.bool_)
        np.greater(planes[self.source], self._step, out=coded[:-1])
        coded[-1] = to_play == 1
        return coded


def _as_planes(sizes: list[int]) -> tuple[int, int, int]:
    if len(sizes) == 1:
        return sizes[0], 1, 1
    if len(sizes) == 2:
        side = math.isqrt(sizes[1])
        return (sizes[0], side, side) if side * side == sizes[1] else (sizes[0], 1, sizes[1])
    return math.prod(sizes[:-2]), sizes[-2], sizes[-1]


def _steps(seen: set[float]) -> list[float]:
    values = sorted({0.0, 1.0} | seen)
    steps = [(low + high) / 2 for low, high in itertools.pairwise(values)]
    if len(steps) <= _MOST_STEPS:
        return steps
    chosen = np.linspace(0, len(steps) - 1, _MOST_STEPS).round().astype(int)
    return [steps[index] for index in chosen]
