"""What a board shows of a position: pieces, and where each action lies.

Everything comes from the rules: the pieces from the position's text, an action's points from what
it changes there. So a game needs no code here to have a board; one whose text is no grid is shown
as text, with its actions as a list.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from zerofleet.errors import ConfigError
from zerofleet.games import State, spec
from zerofleet.games.go import base_name
from zerofleet.services.dashboard.board_text import EMPTY, TextGrid, read_grid

Style = Literal["squares", "lines", "felt", "frame", "chequered", "hexagons", "text"]
Pieces = Literal["marks", "stones", "letters", "chess"]

_NOBODY = -1
# Whose actions are the points of the board, row by row; what comes after them is a pass.
_POINT_GAMES = ("go", "gomoku", "mnk", "othello", "tic_tac_toe")
_MARKED = ("tic_tac_toe", "mnk")
_CHESS = ("chess", "antichess", "crazyhouse")
_STYLES: dict[str, Style] = {
    "go": "lines",
    "gomoku": "lines",
    "othello": "felt",
    "connect_four": "frame",
}
# Length of the row that wins a game, if the name of the game does not contain it.
_ROW_TO_WIN = {"tic_tac_toe": 3, "connect_four": 4, "gomoku": 5}
_ROW_IN_NAME = re.compile(r"\bk\s*=\s*(\d+)")  # mnk(m=7,n=7,k=4)
_DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))  # rows, columns
_LEARNING_PLIES = 120  # of the games that show whose pieces are whose
_SAME_OWNER = 0.9  # of the times that a piece was placed
_TERMINAL_COLOURS = re.compile(r"\x1b\[[0-9;]*m|\[9\dm|\[0m")
_STARS = {9: (2, 6), 13: (3, 9), 15: (3, 11), 19: (3, 9, 15)}


@dataclass(frozen=True, slots=True)
class BoardGrid:
    """What never changes in a game."""

    style: Style
    pieces: Pieces
    rows: int
    columns: int
    row_names: tuple[str, ...]  # from the top; empty: none are written
    column_names: tuple[str, ...]
    stars: tuple[int, ...]  # points that are dotted: hoshi


@dataclass(frozen=True, slots=True)
class BoardAction:
    """An action, and the points that it means: ``columns * row + column`` from the top left."""

    action: int
    text: str
    points: tuple[int, ...]  # where it puts something; none: it lies off the board, as a pass does
    source: int | None = None  # the point that a piece leaves


@dataclass(frozen=True, slots=True)
class Piece:
    """What stands on a point."""

    point: int
    owner: int  # 0 the first player, 1 the second, -1 nobody
    glyph: str  # as the game's text writes it


@dataclass(frozen=True, slots=True)
class VariationStep:
    """One action of a line that is drawn ahead of the position."""

    action: BoardAction
    owner: int  # of what it puts: 0, 1, or -1 where both players' pieces look alike
    glyph: str  # what it puts on its first point; empty off the board


@dataclass(frozen=True, slots=True)
class BoardPosition:
    """A position as a board shows it."""

    pieces: tuple[Piece, ...]
    actions: tuple[BoardAction, ...]  # legal ones, ascending; none when the game is over
    last: BoardAction | None
    ko: int | None  # of Go: the point that may not be retaken now
    to_play: int
    ply: int
    text: str  # the game's own
    won_by: tuple[tuple[int, ...], ...] = ()  # the points of each row that won the game


class GameBoard:
    """How the positions of one game are shown.

    Args:
        game: its name, with its rules.

    Raises:
        ConfigError: there is no such game.
    """

    def __init__(self, game: str) -> None:
        sizes = spec(game)
        self.game = game
        self._family = base_name(game.removeprefix("openspiel:"))
        self._plain_points = base_name(game) in _POINT_GAMES  # the core's, not OpenSpiel's
        _, self._rows, self._columns = sizes.observation_shape
        start = State(game)
        grid = read_grid(_plain(start), self._rows, self._columns)
        self._empty = EMPTY
        self._owners: dict[str, int] = {}
        self._has_grid = grid is not None
        self._moves_pieces = False
        if grid is not None:
            present = set(grid.cells)
            self._empty = next((mark for mark in (".", "-", "+", "_") if mark in present), EMPTY)
            self._learn_owners(start)
        self.shape = self._shape(grid)
        self.start = self.position(())

    def position(self, actions: Sequence[int]) -> BoardPosition:
        """The position after those actions from the start.

        Raises:
            ValueError: an action that the rules forbid.
        """
        state = State(self.game, actions[:-1])
        before, last = None, None
        if actions:
            before = self._cells(state)
            last = self._place(state, before, actions[-1])
            state.apply(actions[-1])
        cells = self._cells(state)
        legal = state.legal_actions()
        return BoardPosition(
            pieces=tuple(
                Piece(point, self._owner(cell), cell)
                for point, cell in enumerate(cells)
                if cell != self._empty
            ),
            actions=tuple(self._place(state, cells, action) for action in legal),
            last=last,
            ko=self._ko(before, cells, legal),
            to_play=state.to_play,
            ply=state.ply,
            text=_plain(state),
            won_by=self._winning_rows(cells, last) if state.result else (),
        )

    def variation(self, actions: Sequence[int], line: Sequence[int]) -> tuple[VariationStep, ...]:
        """The actions of ``line``, played after ``actions``.

        Raises:
            ValueError: an action that the rules forbid.
        """
        state = State(self.game, actions)
        steps: list[VariationStep] = []
        for action in line:
            placed = self._place(state, self._cells(state), action)
            owner = self.owner_of_moves(state.to_play)
            state.apply(action)
            after = self._cells(state)
            glyph = after[placed.points[0]] if placed.points else ""
            steps.append(VariationStep(placed, owner, "" if glyph == self._empty else glyph))
        return tuple(steps)

    def _winning_rows(
        self, cells: tuple[str, ...], last: BoardAction | None
    ) -> tuple[tuple[int, ...], ...]:
        """Return the winning rows through the last move; none in a game without such rows."""
        named = _ROW_IN_NAME.search(self.game) if self._family == "mnk" else None
        needed = int(named[1]) if named else _ROW_TO_WIN.get(self._family, 0)
        if not needed or last is None or not last.points or not cells:
            return ()
        point = last.points[0]
        rows = (self._row_through(cells, point, *step) for step in _DIRECTIONS)
        return tuple(dict.fromkeys(row for row in rows if len(row) >= needed))

    def _row_through(
        self, cells: tuple[str, ...], point: int, down: int, right: int
    ) -> tuple[int, ...]:
        """Return the unbroken row of equal pieces through a point, in one direction and back."""
        row, column = divmod(point, self._columns)
        found = [point]
        for sign in (1, -1):
            for distance in range(1, max(self._rows, self._columns)):
                r, c = row + sign * distance * down, column + sign * distance * right
                inside = 0 <= r < self._rows and 0 <= c < self._columns
                if not inside or cells[r * self._columns + c] != cells[point]:
                    break
                found.append(r * self._columns + c)
        return tuple(sorted(found))

    def owner_of_moves(self, player: int) -> int:
        """Whose pieces a player puts: the player's own, or -1 where both put the same."""
        return player if player in self._owners.values() else _NOBODY

    def _cells(self, state: State) -> tuple[str, ...]:
        grid = read_grid(_plain(state), self._rows, self._columns) if self._has_grid else None
        return () if grid is None else grid.cells

    def _place(self, state: State, cells: tuple[str, ...], action: int) -> BoardAction:
        """Where an action lies in a position with those cells."""
        text = state.action_to_string(action)
        if self._plain_points:
            return BoardAction(action, text, (action,) if action < len(cells) else ())
        if not cells:
            return BoardAction(action, text, ())
        after = state.copy()
        after.apply(action)
        points, source = self._changed(cells, self._cells(after), state.to_play)
        return BoardAction(action, text, points, source)

    def _changed(
        self, before: tuple[str, ...], after: tuple[str, ...], player: int
    ) -> tuple[tuple[int, ...], int | None]:
        """The points where an action put something, and the one that its piece left."""
        filled: list[int] = []
        replaced: list[int] = []
        emptied: list[int] = []
        for point, (was, now) in enumerate(zip(before, after, strict=False)):
            if was == now:
                continue
            if now == self._empty:
                emptied.append(point)
            else:
                (filled if was == self._empty else replaced).append(point)
        put = filled or replaced
        if not put:  # a piece is taken up, as in Amazons
            return tuple(emptied), None
        for target in sorted(put, key=lambda point: after[point].lower() != "k"):  # castling
            source = self._source(before, after[target], emptied, player)
            if source is not None:
                return (target,), source
        return tuple(put), None

    def _source(
        self, before: tuple[str, ...], glyph: str, emptied: Sequence[int], player: int
    ) -> int | None:
        """The point that a piece left: it looked alike there, or at least was the player's."""
        alike = [point for point in emptied if before[point] == glyph]
        owned = [point for point in emptied if self._owner(before[point]) == player]
        return next(iter(alike or owned), None)

    def _owner(self, glyph: str) -> int:
        owner = self._owners.get(glyph)
        if owner is not None or not glyph.isalpha():
            return _NOBODY if owner is None else owner
        # A piece that was not seen to move is its side's where the sides write in different cases.
        alike = {
            self._owners[known] for known in self._owners if known.isupper() == glyph.isupper()
        }
        unlike = {
            self._owners[known] for known in self._owners if known.isupper() != glyph.isupper()
        }
        return alike.pop() if len(alike) == 1 and alike.isdisjoint(unlike) else _NOBODY

    def _learn_owners(self, state: State) -> None:
        """Play some games at random and see who puts which piece; in checkers kings come late."""
        draw = random.Random(self.game)
        seen: Counter[tuple[str, int]] = Counter()
        for _ in range(_LEARNING_PLIES):
            if state.is_terminal:
                state = State(self.game)
            before, player = self._cells(state), state.to_play
            action = draw.choice(state.legal_actions())
            state.apply(action)
            after = self._cells(state)
            points, source = self._changed(before, after, player)
            self._moves_pieces |= source is not None
            for point in points:
                if after[point] != self._empty and (
                    source is not None or before[point] == self._empty
                ):
                    seen[after[point], player] += 1
        for glyph, player in seen:
            times = seen[glyph, player]
            if times >= _SAME_OWNER * (times + seen[glyph, 1 - player]):
                self._owners[glyph] = player

    def _ko(
        self, before: tuple[str, ...] | None, cells: tuple[str, ...], legal: Sequence[int]
    ) -> int | None:
        if base_name(self.game) != "go" or before is None or not legal:
            return None
        taken = [
            point
            for point, (was, now) in enumerate(zip(before, cells, strict=True))
            if was != now == self._empty
        ]
        return taken[0] if len(taken) == 1 and taken[0] not in legal else None

    def _shape(self, grid: TextGrid | None) -> BoardGrid:
        if grid is None:
            return BoardGrid("text", "letters", 0, 0, (), (), ())
        rows, columns = grid.row_names, grid.column_names
        if grid.forsyth and self._family in _CHESS:
            rows = tuple(str(row) for row in range(self._rows, 0, -1))
            columns = tuple("abcdefgh")
        elif self._family == "connect_four":
            columns = tuple(str(column + 1) for column in range(self._columns))
        stars = _STARS.get(self._rows, ()) if self._style(grid) == "lines" else ()
        middle = (self._rows // 2,) if self._rows % 2 and self._rows in _STARS else ()
        return BoardGrid(
            style=self._style(grid),
            pieces=self._pieces(grid),
            rows=self._rows,
            columns=self._columns,
            row_names=rows,
            column_names=columns,
            stars=tuple(
                {
                    r * self._columns + c: None
                    for each in (stars, middle)
                    for r in each
                    for c in each
                }
            )
            if stars
            else (),
        )

    def _style(self, grid: TextGrid) -> Style:
        if grid.indent:
            return "hexagons"
        return _STYLES.get(self._family, "chequered" if self._moves_pieces else "squares")

    def _pieces(self, grid: TextGrid) -> Pieces:
        if self._family in _MARKED:
            return "marks"
        if grid.forsyth:
            return "chess" if self._family in _CHESS else "letters"
        return "stones" if len(self._owners) == len(set(self._owners.values())) else "letters"


@lru_cache(maxsize=32)
def board_of(game: str) -> GameBoard:
    """The board of a game, made once.

    Raises:
        ConfigError: there is no such game.
    """
    return GameBoard(game)


def require_known(game: str, own_game: str) -> None:
    """Refuse a game of another run that the database alone names, and that could do harm here.

    A class would be imported, and parameters of OpenSpiel may be of any size.

    Raises:
        ConfigError: it is a class, or a game of OpenSpiel with parameters.
    """
    if game == own_game:
        return
    kind, colon, name = game.partition(":")
    if colon and (kind != "openspiel" or not re.fullmatch(r"\w{1,80}(\(\))?", name)):
        what = "is a Python class" if kind == "python" else "has parameters or is no game's name"
        raise ConfigError(
            f"'{game[:80]}' {what} and belongs to another run: start the dashboard with that run's "
            "file"
        )


def _plain(state: State) -> str:
    return _TERMINAL_COLOURS.sub("", str(state))
