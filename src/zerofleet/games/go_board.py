"""The stones of a position of Go, and which player each point belongs to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from zerofleet_core import State, game_spec

from zerofleet.games.go_rules import GoRules

EMPTY = -1


class GoBoard:
    """A board as it lies: ``stones[point]`` is 0 (black), 1 (white) or ``EMPTY``.

    Points are numbered ``size * row + column`` from the top left, as actions are.
    """

    def __init__(self, state: State) -> None:
        planes, rows, columns = game_spec(state.game).observation_shape
        bits = np.unpackbits(state.observation())[: planes * rows * columns]
        # The first two planes are the stones of the player to move and of the other one.
        own, other = bits.reshape(planes, rows * columns)[:2].astype(np.bool_)
        self.size = rows
        self.stones: NDArray[np.int8] = np.full(rows * columns, EMPTY, np.int8)  # [points]
        self.stones[own] = state.to_play
        self.stones[other] = 1 - state.to_play

    def area(self) -> tuple[int, int]:
        """Points of Black and of White: stones, and empty regions that touch one colour alone.

        Tromp and Taylor, "The game of Go: concise rules", rule 9. Every stone counts as alive.
        """
        points = [int((self.stones == colour).sum()) for colour in (0, 1)]
        for region in self.regions(EMPTY):
            beside = {int(self.stones[near]) for point in region for near in self._beside(point)}
            owners = beside - {EMPTY}
            if len(owners) == 1:
                points[owners.pop()] += len(region)
        return points[0], points[1]

    def regions(self, colour: int) -> list[list[int]]:
        """The connected regions of a colour (or of ``EMPTY``), each in ascending order."""
        found: list[list[int]] = []
        seen: set[int] = set()
        for start in np.flatnonzero(self.stones == colour).tolist():
            if start in seen:
                continue
            region, border = {start}, [start]
            while border:
                for near in self._beside(border.pop()):
                    if self.stones[near] == colour and near not in region:
                        region.add(near)
                        border.append(near)
            seen |= region
            found.append(sorted(region))
        return found

    def _beside(self, point: int) -> list[int]:
        row, column = divmod(point, self.size)
        near = ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1))
        return [self.size * r + c for r, c in near if 0 <= r < self.size and 0 <= c < self.size]


def go_score(state: State) -> str:
    """Who wins by how much if the game ended here, as GTP and SGF write it: "B+3.5", "0"."""
    black, white = GoBoard(state).area()
    margin = black - white - GoRules.of(state.game).komi
    if margin == 0:
        return "0"
    return f"{'B' if margin > 0 else 'W'}+{abs(margin):g}"
