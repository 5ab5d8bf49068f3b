"""The page of games tells planes, numbering and notation as the engine has them."""

import math
import random
import runpy
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from zerofleet.games import State, names, spec

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "scripts" / "reference"
EMPTY = -1


@cache
def page() -> dict[str, Any]:
    sys.path.insert(0, str(FOLDER))
    try:
        return runpy.run_path(str(FOLDER / "games_page.py"))
    finally:
        sys.path.remove(str(FOLDER))


Grid = NDArray[np.int8]
"""Owner of each point, [rows, columns]: 0 the first player, 1 the second, -1 nobody."""


class Position(NamedTuple):
    """A position as this test keeps it, without the engine's planes."""

    state: State
    grids: list[Grid]
    """The present board, then the earlier ones."""

    @property
    def grid(self) -> Grid:
        return self.grids[0]

    @property
    def player(self) -> int:
        return self.state.to_play


def stones(player: int, ago: int = 0) -> Callable[[Position], NDArray[Any]]:
    """Stones of the player to move (0) or of the opponent (1), some plies ago."""

    def plane(position: Position) -> NDArray[Any]:
        if ago >= len(position.grids):
            return np.zeros_like(position.grid)
        return position.grids[ago] == (position.player ^ player)

    return plane


def marks(player: int) -> Callable[[Position], NDArray[Any]]:
    return lambda position: position.grid == player


def turn(player: int) -> Callable[[Position], NDArray[Any]]:
    return lambda position: np.full_like(position.grid, position.player == player)


def flipped(grid: Grid, row: int, column: int, player: int) -> list[tuple[int, int]]:
    """Discs that a disc of Othello encloses; none where it may not be placed."""
    if grid[row, column] != EMPTY:
        return []
    found: list[tuple[int, int]] = []
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            line: list[tuple[int, int]] = []
            r, c = row + down, column + right
            while 0 <= r < 8 and 0 <= c < 8 and grid[r, c] == 1 - player:
                line.append((r, c))
                r, c = r + down, c + right
            if line and 0 <= r < 8 and 0 <= c < 8 and grid[r, c] == player:
                found += line
    return found


def placements(player: int) -> Callable[[Position], NDArray[Any]]:
    def plane(position: Position) -> NDArray[Any]:
        mover = position.player ^ player
        return np.array(
            [[bool(flipped(position.grid, r, c, mover)) for c in range(8)] for r in range(8)]
        )

    return plane


def neighbours(point: tuple[int, int], size: int) -> Iterator[tuple[int, int]]:
    row, column = point
    for r, c in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
        if 0 <= r < size and 0 <= c < size:
            yield r, c


def liberties(player: int, count: int) -> Callable[[Position], NDArray[Any]]:
    def plane(position: Position) -> NDArray[Any]:
        grid, owner = position.grid, position.player ^ player
        size = len(grid)
        found = np.zeros_like(grid)
        for start in zip(*np.nonzero(grid == owner), strict=True):
            chain, todo, free = {start}, [start], set[tuple[int, int]]()
            while todo:
                for point in neighbours(todo.pop(), size):
                    if grid[point] == EMPTY:
                        free.add(point)
                    elif grid[point] == owner and point not in chain:
                        chain.add(point)
                        todo.append(point)
            found[start] = len(free) == count
        return found

    return plane


def repeats(position: Position) -> NDArray[Any]:
    """Empty points that are illegal; suicide is allowed, so only a repetition forbids a move."""
    grid = position.grid
    legal = np.zeros(grid.size + 1, bool)
    legal[position.state.legal_actions()] = True
    return (grid == EMPTY) & ~legal[:-1].reshape(grid.shape)


SECOND = "all ones if the second player is to move, else zeros"
CONTENT: dict[str, Callable[[Position], NDArray[Any]]] = {
    SECOND: turn(1),
    "all ones if Black is to move, else zeros": turn(0),
    "discs of the player to move": stones(0),
    "discs of the opponent": stones(1),
    "stones of the player to move": stones(0),
    "stones of the opponent": stones(1),
    "marks of the first player": marks(0),
    "marks of the second player": marks(1),
    "squares where the player to move can place a disc": placements(0),
    "squares where the opponent could place a disc": placements(1),
    "empty points where a move would repeat an earlier position (ko)": repeats,
    **{
        f"stones of {whose}, {when}": stones(player, ago)
        for player, whose in enumerate(("the player to move", "the opponent"))
        for ago, when in enumerate(
            ("now", "1 ply ago", *(f"{plies} plies ago" for plies in range(2, 8)))
        )
    },
    **{
        f"stones of {whose} in chains with {text}": liberties(player, count)
        for player, whose in enumerate(("the player to move", "the opponent"))
        for count, text in ((1, "1 liberty"), (2, "2 liberties"), (3, "3 liberties"))
    },
}
"""Each plane by what the page says of it, computed from the board alone."""


def after(family: str, state: State, grid: Grid, action: int) -> Grid:
    """Return the board after an action, which ``state`` has just played."""
    player = (state.ply - 1) % 2
    rows, columns = grid.shape
    if family == "go":  # the engine's own picture: captures are tested elsewhere
        lines = [line.split()[1:] for line in str(state).splitlines()[:rows]]
        return np.array([["XO".find(each) for each in line] for line in lines], np.int8)
    changed = grid.copy()
    if family == "connect_four":
        row = max(row for row in range(rows) if grid[row, action] == EMPTY)
        changed[row, action] = player
    elif action < grid.size:
        point = divmod(action, columns)
        if family == "othello":
            for each in flipped(grid, *point, player):
                changed[each] = player
        changed[point] = player
    return changed


def start(name: str) -> Grid:
    grid = np.full(spec(name).observation_shape[1:], EMPTY, np.int8)
    if name == "othello":
        grid[3, 3] = grid[4, 4] = 1
        grid[3, 4] = grid[4, 3] = 0
    return grid


OTHERS = [game for game in page()["GAMES"] if game.name != "chess"]  # see test_chess.py
VARIANTS = [
    (game.name, name)
    for game in OTHERS
    for name in (*game.variants, "go(size=5,observation=liberties)")
    if game.name == "go" or "go(" not in name
]


@pytest.mark.parametrize(("family", "name"), VARIANTS, ids=[name for _, name in VARIANTS])
def test_the_planes_are_as_the_page_says(family: str, name: str) -> None:
    (game,) = [each for each in page()["GAMES"] if each.name == family]
    shape = spec(name).observation_shape
    told = game.planes[: shape[0]] if family == "go" else game.planes
    assert len(told) == shape[0]
    chance = random.Random(5)
    for _ in range(1 if math.prod(shape) > 500 else 4):
        state, grids = State(name), [start(name)]
        while not state.is_terminal and state.ply < 100:
            position = Position(state, grids)
            bits = np.unpackbits(state.observation(), count=math.prod(shape)).reshape(shape)
            for number, content in enumerate(told):
                np.testing.assert_array_equal(
                    bits[number], CONTENT[content](position), f"{name}, plane {number}: {content}"
                )
            action = chance.choice(state.legal_actions())
            state.apply(action)
            grids.insert(0, after(family, state, grids[0], action))
            del grids[8:]


def written(family: str, shape: tuple[int, int, int], action: int) -> str:
    _, rows, columns = shape
    if family == "connect_four":
        return str(action + 1)
    if action == rows * columns:
        return "pass"
    row, column = divmod(action, columns)
    if family == "go":
        return f"{'ABCDEFGHJKLMNOPQRST'[column]}{rows - row}"
    from_top = family in ("othello", "tic_tac_toe")
    return f"{'abcdefghijklmnopqrs'[column]}{row + 1 if from_top else rows - row}"


@pytest.mark.parametrize(("family", "name"), VARIANTS, ids=[name for _, name in VARIANTS])
def test_actions_are_numbered_and_written_as_the_page_says(family: str, name: str) -> None:
    sizes, state = spec(name), State(name)
    for action in range(sizes.num_actions):
        text = written(family, sizes.observation_shape, action)
        assert state.action_to_string(action) == text
        assert state.string_to_action(text.swapcase()) == action


def test_every_built_in_game_has_its_section() -> None:
    assert [game.name for game in page()["GAMES"]] == names()
    assert {content for game in OTHERS for content in game.planes} == CONTENT.keys()


def test_the_example_prints_the_disc(capsys: pytest.CaptureFixture[str]) -> None:
    exec(page()["CODE"], {})
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 6
    assert rows[-1] == " [0 0 0 1 0 0 0]]"
