"""Go: the rules in a game's name, the stones of a position, and the score by area.

``GoBoard`` and ``diagram`` also serve Othello, whose positions have two kinds of stones too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from zerofleet_core import State, game_spec

from zerofleet.errors import ConfigError
from zerofleet.games.game_specs import base_name

_KOMI = 7.5  # the core's default for a name without komi
EMPTY = -1


@dataclass(frozen=True, slots=True)
class GoRules:
    """Variable parts of Tromp-Taylor rules, read from a name such as ``go(size=9,komi=7)``."""

    size: int  # rows, and columns
    komi: float  # White's points
    suicide: bool  # whether a move may remove its own chain

    @classmethod
    def of(cls, game: str) -> Self:
        """Return the rules of a game's name.

        Raises:
            ConfigError: there is no such game, or it is not Go.
        """
        if not is_go(game):
            raise ConfigError(f"the game is '{game}', not Go")
        try:
            size = game_spec(game).observation_shape[1]
        except ValueError as error:
            raise ConfigError(str(error)) from error
        given = _settings(game)
        return cls(
            size=size,
            komi=float(given.get("komi", min(_KOMI, size * size))),
            suicide=given.get("suicide", "true") == "true",
        )

    @property
    def name(self) -> str:
        """Name of the game with these rules."""
        suicide = "true" if self.suicide else "false"
        return f"go(size={self.size},komi={self.komi:g},suicide={suicide})"


def is_go(game: str) -> bool:
    """Return whether a game is Go."""
    return base_name(game) == "go"


def _settings(game: str) -> dict[str, str]:
    inside = game.partition("(")[2].removesuffix(")")
    pairs = (setting.partition("=") for setting in inside.split(",") if setting)
    return {key.strip(): value.strip() for key, _, value in pairs}


class GoBoard:
    """The stones of a position: ``stones[point]`` is 0 (black), 1 (white) or ``EMPTY``.

    Points are numbered ``size * row + column`` from the top left, like actions.
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
        """Return the points of Black and White: stones, and empty regions that touch one colour.

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
        """Return the connected regions of a colour (or of ``EMPTY``), each in ascending order."""
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


def diagram(stones: NDArray[np.int8], to_play: int) -> str:
    """Return a start position of Go or Othello for a square board of stones, as in ``GoBoard``."""
    size = math.isqrt(len(stones))
    marks = ["XO-"[owner] for owner in stones.tolist()]  # -1 is the last one
    rows = ("".join(marks[row : row + size]) for row in range(0, len(marks), size))
    return f"{'/'.join(rows)} {'XO'[to_play]}"


def go_score(state: State) -> str:
    """Return the score if the game ended here, as GTP and SGF write it: "B+3.5", "0"."""
    black, white = GoBoard(state).area()
    margin = black - white - GoRules.of(state.game).komi
    if margin == 0:
        return "0"
    return f"{'B' if margin > 0 else 'W'}+{abs(margin):g}"
