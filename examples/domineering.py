"""Domineering on 6 x 6: a game written as one Python class.

The players lay dominoes on empty points: Vertical, who begins, upright ones, Horizontal lying ones.
Who has no room left loses; there are no draws.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from zerofleet.games import Game

SIZE = 6
UPRIGHT = (SIZE - 1) * SIZE  # number of places for an upright domino, and for a lying one


def points_of(action: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The two points, (row, column), that a domino covers: upright ones first, row by row."""
    if action < UPRIGHT:
        row, column = divmod(action, SIZE)
        return (row, column), (row + 1, column)
    row, column = divmod(action - UPRIGHT, SIZE - 1)
    return (row, column), (row, column + 1)


def action_at(first: tuple[int, int], second: tuple[int, int]) -> int:
    """The domino that covers two points."""
    (row, column), (below, _) = sorted((first, second))
    return row * SIZE + column if below > row else UPRIGHT + row * (SIZE - 1) + column


POINTS = [points_of(action) for action in range(2 * UPRIGHT)]
NAMES = ["".join(f"{'abcdef'[column]}{row + 1}" for row, column in POINTS[a]) for a in range(60)]


class Domineering(Game):
    """A position: which points are covered, by which dominoes, and who is to play."""

    num_actions = 2 * UPRIGHT
    observation_shape = (2, SIZE, SIZE)
    max_length = SIZE * SIZE // 2
    player_names = ("Vertical", "Horizontal")
    num_symmetries = 4  # both reflections and the half turn; a quarter turn swaps the players

    def __init__(self) -> None:
        self.covered: NDArray[np.bool_] = np.zeros((SIZE, SIZE), np.bool_)
        self.lying: NDArray[np.bool_] = self.covered.copy()  # covered by the second player
        self.to_play = 0
        self.is_terminal = False
        self.result = 0

    def legal_actions(self) -> list[int]:
        """Where the player's domino fits."""
        first = 0 if self.to_play == 0 else UPRIGHT
        return (np.flatnonzero(self._room()) + first).tolist()

    def apply(self, action: int) -> None:
        """Cover two points."""
        for point in POINTS[action]:
            self.covered[point] = True
            self.lying[point] = action >= UPRIGHT
        self.to_play = 1 - self.to_play
        if not self._room().any():
            self.is_terminal = True
            self.result = -1 if self.to_play == 0 else 1

    def copy(self) -> Self:
        """An independent position."""
        twin = type(self)()
        twin.covered, twin.lying = self.covered.copy(), self.lying.copy()
        twin.to_play, twin.is_terminal, twin.result = self.to_play, self.is_terminal, self.result
        return twin

    def observation(self) -> NDArray[np.bool_]:
        """Covered points; all ones when the second player is to play."""
        return np.stack([self.covered, np.full((SIZE, SIZE), self.to_play == 1)])

    @classmethod
    def symmetric_point(cls, point: int, symmetry: int) -> int:
        """Bit 0 of the symmetry turns the rows over, bit 1 the columns."""
        row, column = reflected(divmod(point, SIZE), symmetry)
        return row * SIZE + column

    @classmethod
    def symmetric_action(cls, action: int, symmetry: int) -> int:
        """A domino moves with its points."""
        first, second = POINTS[action]
        return action_at(reflected(first, symmetry), reflected(second, symmetry))

    @classmethod
    def action_to_string(cls, action: int) -> str:
        """The two points: ``a1a2`` is upright, ``a1b1`` lies."""
        return NAMES[action]

    def __str__(self) -> str:
        marks = self.covered.astype(int) + self.lying
        rows = [" ".join(".|-"[mark] for mark in row) for row in marks]
        return "\n".join(["  a b c d e f", *(f"{r} {row}" for r, row in enumerate(rows, start=1))])

    def _room(self) -> NDArray[np.bool_]:
        """Where the domino of the player to move fits, by its upper left point."""
        free = ~self.covered
        return free[:-1] & free[1:] if self.to_play == 0 else free[:, :-1] & free[:, 1:]


def reflected(point: tuple[int, int], symmetry: int) -> tuple[int, int]:
    """Where a symmetry puts (row, column)."""
    row, column = point
    return (SIZE - 1 - row if symmetry & 1 else row), (
        SIZE - 1 - column if symmetry & 2 else column
    )
