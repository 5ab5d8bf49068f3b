"""Dots and Boxes on two rows of three boxes, with perfect play for the exam.

Players draw edges in turn. Whoever draws the fourth edge of a box owns it and draws again. The
player with more boxes wins. Train it with ``zerofleet up examples/dots_and_boxes.toml``.
"""

from __future__ import annotations

import copy
import functools
from typing import Self

import numpy as np
from numpy.typing import NDArray

from zerofleet.games import Game

ROWS, COLUMNS = 5, 7
"""The board has a point for each dot, edge and box: dots at even rows and columns, boxes at odd."""
POINTS = [(row, column) for row in range(ROWS) for column in range(COLUMNS)]
EDGES = [(row, column) for row, column in POINTS if (row + column) % 2]
BOXES = [(row, column) for row, column in POINTS if row % 2 and column % 2]
SIDES = [(-1, 0), (1, 0), (0, -1), (0, 1)]
BOX_EDGES = [
    sum(1 << EDGES.index((row + down, column + right)) for down, right in SIDES)
    for row, column in BOXES
]
"""The four edges of each box, as bits."""
MARKS = {"dot": "+", "across": "-", "down": "|", "none": "."}


class DotsAndBoxes(Game):
    """A position; the first player is Red, the second Blue."""

    num_actions = len(EDGES)
    observation_shape = (3, ROWS, COLUMNS)
    max_length = len(EDGES)
    num_symmetries = 4
    player_names = ("Red", "Blue")

    def __init__(self) -> None:
        self.drawn = 0  # bits of EDGES
        self.owners = [-1] * len(BOXES)  # 0 Red, 1 Blue, -1 nobody
        self.to_play = 0

    @property
    def is_terminal(self) -> bool:
        """Whether all edges are drawn."""
        return self.drawn == (1 << len(EDGES)) - 1

    @property
    def result(self) -> int:
        """Sign of Red's lead."""
        return sign(self.lead(0))

    def lead(self, player: int) -> int:
        """Return the boxes of a player minus the other's."""
        return self.owners.count(player) - self.owners.count(1 - player)

    def legal_actions(self) -> list[int]:
        """Return the edges that are not drawn."""
        return [edge for edge in range(len(EDGES)) if not self.drawn >> edge & 1]

    def apply(self, action: int) -> None:
        """Draw an edge; whoever completes a box stays to play."""
        drawn = self.drawn | 1 << action
        completed = new_boxes(self.drawn, drawn)
        for box in completed:
            self.owners[box] = self.to_play
        self.drawn = drawn
        if not completed:
            self.to_play = 1 - self.to_play

    def copy(self) -> Self:
        """Return a copy with its own list of owners."""
        twin = copy.copy(self)
        twin.owners = list(self.owners)
        return twin

    def observation(self) -> NDArray[np.bool_]:
        """Return planes of the edges, of the player's boxes, and of the other's."""
        planes = np.zeros(self.observation_shape, np.bool_)
        for edge, point in enumerate(EDGES):
            planes[0][point] = self.drawn >> edge & 1
        for box, point in enumerate(BOXES):
            planes[1][point] = self.owners[box] == self.to_play
            planes[2][point] = self.owners[box] == 1 - self.to_play
        return planes

    def final_score(self) -> float:
        """Return Red's lead in boxes."""
        return float(self.lead(0))

    def perfect_outcomes(self) -> list[int]:
        """Return the outcome of each legal edge under perfect play, for the player to move."""
        lead = self.lead(self.to_play)
        return [sign(lead + gain(self.drawn, edge)) for edge in self.legal_actions()]

    @classmethod
    def symmetric_point(cls, point: int, symmetry: int) -> int:
        """Mirror rows, columns or both."""
        row, column = divmod(point, COLUMNS)
        row = ROWS - 1 - row if symmetry & 1 else row
        column = COLUMNS - 1 - column if symmetry & 2 else column
        return row * COLUMNS + column

    @classmethod
    def symmetric_action(cls, action: int, symmetry: int) -> int:
        """Mirror the edge's point."""
        row, column = EDGES[action]
        moved = cls.symmetric_point(row * COLUMNS + column, symmetry)
        return EDGES.index(divmod(moved, COLUMNS))

    @classmethod
    def action_to_string(cls, action: int) -> str:
        """Return column and row of the edge's point, such as b1."""
        row, column = EDGES[action]
        return f"{'abcdefg'[column]}{ROWS - row}"

    def svg(self) -> str:
        """Return the picture on the dashboard: boxes, edges and dots, one unit per point."""
        parts: list[str] = []
        for (row, column), owner in zip(BOXES, self.owners, strict=True):
            if owner >= 0:
                colour = ("#c62828", "#1565c0")[owner]
                parts.append(rect(row - 0.5, column - 0.5, 2, 2, f'fill="{colour}" opacity="0.6"'))
        for edge, (row, column) in enumerate(EDGES):
            tall, wide = (2, 0.16) if row % 2 else (0.16, 2)
            fill = "var(--ink)" if self.drawn >> edge & 1 else "var(--field-2)"
            top, left = row + 0.5 - tall / 2, column + 0.5 - wide / 2
            parts.append(rect(top, left, tall, wide, f'fill="{fill}"'))
        for row, column in POINTS:
            if row % 2 == 0 and column % 2 == 0:
                parts.append(f'<circle cx="{column + 0.5}" cy="{row + 0.5}" r="0.2"/>')
        return f'<g fill="var(--ink)">{"".join(parts)}</g>'

    def __str__(self) -> str:
        marks = dict.fromkeys(POINTS, MARKS["none"])
        for edge, (row, column) in enumerate(EDGES):
            if self.drawn >> edge & 1:
                marks[row, column] = MARKS["down" if row % 2 else "across"]
        for point, owner in zip(BOXES, self.owners, strict=True):
            marks[point] = "RB."[owner]
        for row, column in POINTS:
            if row % 2 == 0 and column % 2 == 0:
                marks[row, column] = MARKS["dot"]
        lines = (" ".join(marks[row, column] for column in range(COLUMNS)) for row in range(ROWS))
        return "\n".join(lines)


def new_boxes(before: int, after: int) -> list[int]:
    """Return the boxes that are complete in ``after``, and were not in ``before``."""
    return [
        box
        for box, edges in enumerate(BOX_EDGES)
        if after & edges == edges and before & edges != edges
    ]


def gain(drawn: int, edge: int) -> int:
    """Return the boxes that the player to move wins, net, after drawing an edge."""
    after = drawn | 1 << edge
    completed = len(new_boxes(drawn, after))
    return completed + best_gain(after) if completed else -best_gain(after)


@functools.cache
def best_gain(drawn: int) -> int:
    """Return the boxes that the player to move wins, net, under perfect play of the rest."""
    edges = [edge for edge in range(len(EDGES)) if not drawn >> edge & 1]
    return max((gain(drawn, edge) for edge in edges), default=0)


def rect(top: float, left: float, tall: float, wide: float, paint: str) -> str:
    """Return an SVG rectangle."""
    return f'<rect x="{left}" y="{top}" width="{wide}" height="{tall}" {paint}/>'


def sign(number: int) -> int:
    """Return +1, 0 or -1."""
    return (number > 0) - (number < 0)
