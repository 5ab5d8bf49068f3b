"""Boards: the pieces of a position and the points of an action, for any game.

Everything comes from the rules: the pieces from the position's text, an action's points from the
changes that it makes. So a game needs no code here to have a board. A game whose text is not a grid
is shown as text, with its actions as a list.

A grid is read in three forms: separate cells (``3 . x o``), joined cells (``3.xo``), and Forsyth
notation of chess and its relatives (``rnbqkbnr/pppppppp/8/...``).
"""

from __future__ import annotations

import copy
import itertools
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import structlog
from zerofleet_core import State

from zerofleet.errors import ConfigError
from zerofleet.games.chess_board import CapturedPieces, captured_pieces, checked_king
from zerofleet.games.game_specs import base_name, outside_rules, spec
from zerofleet.games.notation import player_names
from zerofleet.games.python_game import ClassRules

_log = structlog.get_logger()

EMPTY = "."
_ROW_NAME = re.compile(r"\s*(\d{1,2})?")
_FORSYTH = re.compile(r"\d+|\+?[A-Za-z]~?")
_FEWEST = 2  # rows, and columns, of a grid

Style = Literal["squares", "lines", "felt", "frame", "chequered", "hexagons", "text"]
Pieces = Literal["marks", "stones", "letters", "chess"]

_NOBODY = -1
# In these games the actions are the points of the board, row by row, followed by a pass.
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
_LEARNING_PLIES = 120  # plies of the games that reveal the owners of the pieces
_SAME_OWNER = 0.9  # share of the times that a piece was placed
_TERMINAL_COLOURS = re.compile(r"\x1b\[[0-9;]*m|\[9\dm|\[0m")
_STARS = {9: (2, 6), 13: (3, 9), 15: (3, 11), 19: (3, 9, 15)}


@dataclass(frozen=True, slots=True)
class TextGrid:
    """The content of each point, as the text writes it; ``EMPTY`` where there is none."""

    cells: tuple[str, ...]  # row by row
    row_names: tuple[str, ...]  # empty: the text has none
    column_names: tuple[str, ...]
    indent: int  # characters by which each row is shifted right of the one above
    forsyth: bool


def read_grid(text: str, rows: int, columns: int) -> TextGrid | None:
    """Return the grid in a position's text; None if there is none of that size, or several."""
    if rows < _FEWEST or columns < _FEWEST:
        return None
    return _forsyth(text, rows, columns) or _lines(text, rows, columns)


def _forsyth(text: str, rows: int, columns: int) -> TextGrid | None:
    parts = text.split(" ", 1)[0].partition("[")[0].split("/")
    if len(parts) != rows:
        return None
    cells: list[str] = []
    for part in parts:
        row: list[str] = []
        for found in _FORSYTH.findall(part):
            row += [EMPTY] * int(found) if found.isdecimal() else [found]
        if len(row) != columns:
            return None
        cells += row
    return TextGrid(tuple(cells), (), (), 0, forsyth=True)


def _lines(text: str, rows: int, columns: int) -> TextGrid | None:
    found: list[tuple[int, str, tuple[str, ...]]] = []  # place of the first cell, name, cells
    column_names: tuple[str, ...] = ()
    for line in text.splitlines():
        read = _line(line, columns)
        if read is None:
            continue
        if _is_sequence(read[2]):
            column_names = read[2]
        else:
            found.append(read)
    if len(found) != rows:
        return None
    names = tuple(name for _, name, _ in found)
    steps = {below[0] - above[0] for above, below in itertools.pairwise(found)}
    indent = steps.pop() if len(steps) == 1 else 0
    cells = tuple(cell for _, _, row in found for cell in row)
    return TextGrid(cells, names if all(names) else (), column_names, max(indent, 0), forsyth=False)


def _line(line: str, columns: int) -> tuple[int, str, tuple[str, ...]] | None:
    """Return the place of the first cell, name and cells of a row; None if it is not a row."""
    line = line.rstrip()
    name = _ROW_NAME.match(line)
    ends = (name.end(1) - 1, name.end(1)) if name and name[1] else ()
    for end in sorted({0, *ends}):
        label, rest = line[:end].strip(), line[end:]
        indent = end + len(rest) - len(rest.lstrip())
        words = rest.split()
        if len(words) == columns + 1 and words[-1] == label:  # the name is on both sides
            words.pop()
        if len(words) == 1 and len(words[0]) == columns:
            return indent, label, tuple(words[0])
        if len(words) == columns and all(len(word) == 1 for word in words):
            return indent, label, tuple(words)
    return None


def _is_sequence(cells: Sequence[str]) -> bool:
    """Return whether a line names the columns: a b c, or 1 2 3; Go leaves out the letter i."""
    text = "".join(cells).lower()
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    return any(
        text == known[: len(text)]
        for known in (alphabet, alphabet.replace("i", ""), "123456789", "0123456789")
    )


@dataclass(frozen=True, slots=True)
class BoardGrid:
    """The constant properties of a game's board."""

    style: Style
    pieces: Pieces
    rows: int
    columns: int
    row_names: tuple[str, ...]  # from the top; empty: there are none
    column_names: tuple[str, ...]
    stars: tuple[int, ...]  # points with a dot: hoshi
    pictured: bool = False  # the game draws its own pictures
    white_first: bool = False  # the first player's pieces are the light ones


@dataclass(frozen=True, slots=True)
class BoardAction:
    """An action and its points: ``columns * row + column`` from the top left."""

    action: int
    text: str
    # points that get a piece; empty: the action is off the board, like a pass
    points: tuple[int, ...]
    source: int | None = None  # the point that a piece leaves


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece on a point."""

    point: int
    owner: int  # 0 the first player, 1 the second, -1 nobody
    glyph: str  # character in the game's text


@dataclass(frozen=True, slots=True)
class VariationStep:
    """One action of a line that is drawn ahead of the position."""

    action: BoardAction
    owner: int  # owner of the piece: 0, 1, or -1 if both players' pieces look the same
    glyph: str  # piece on its first point; empty off the board


@dataclass(frozen=True, slots=True)
class BoardPosition:
    """A position as a board shows it."""

    pieces: tuple[Piece, ...]
    actions: tuple[BoardAction, ...]  # legal actions, ascending; none when the game is over
    last: BoardAction | None
    ko: int | None  # in Go: the point that may not be retaken now
    to_play: int
    ply: int
    text: str  # text of the game
    won_by: tuple[tuple[int, ...], ...] = ()  # points of each row that won the game
    check: int | None = None  # in chess: the king of the player to move, in check
    captured: tuple[CapturedPieces, ...] = ()  # in chess: by each player
    setup_text: str = ""  # in the game's notation; empty: it has none
    picture: str = ""  # SVG elements, a unit for each cell; empty: the game draws none


class GameBoard:
    """The rules for showing the positions of one game.

    Args:
        game: game name, with its rules.

    Raises:
        ConfigError: there is no such game.
    """

    def __init__(self, game: str) -> None:
        sizes = spec(game)
        self.game = game
        self.names = player_names(game)
        self._sets_up = sizes.sets_up_positions
        self._family = base_name(game.removeprefix("openspiel:"))
        self._is_chess = self._family == "chess"
        self._plain_points = base_name(game) in _POINT_GAMES  # the core's games, not OpenSpiel's
        _, self._rows, self._columns = sizes.observation_shape
        start = State(game)
        grid = read_grid(_plain(start), self._rows, self._columns)
        self._empty = EMPTY
        self._owners: dict[str, int] = {}
        self._has_grid = grid is not None
        self._moves_pieces = False
        self._drawing = _drawing_rules(game)
        if grid is not None:
            present = set(grid.cells)
            self._empty = next((mark for mark in (".", "-", "+", "_") if mark in present), EMPTY)
            self._learn_owners(start)
        self.shape = self._shape(grid)
        self.start_text = ""
        """Start position; empty: the usual one."""
        self.start = self.position(())

    def starting_at(self, text: str) -> GameBoard:
        """Return the board of games that begin at a start position; empty: the usual start.

        Raises:
            ValueError: the start position is wrong.
        """
        if text == self.start_text:
            return self
        other = copy.copy(self)
        other.start_text = text
        other.start = other.position(())
        return other

    def position(self, actions: Sequence[int]) -> BoardPosition:
        """Return the position after those actions from the start position.

        Raises:
            ValueError: an action that the rules forbid.
        """
        state = State(self.game, actions[:-1], self.start_text)
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
            check=checked_king(cells, state.to_play) if self._is_chess else None,
            captured=captured_pieces(self.game, actions, self.start_text, self.names)
            if self._is_chess
            else (),
            setup_text=state.setup_text() if self._sets_up else "",
            picture=self._picture(actions),
        )

    def variation(self, actions: Sequence[int], line: Sequence[int]) -> tuple[VariationStep, ...]:
        """Return the steps of ``line``, played after ``actions``.

        Raises:
            ValueError: an action that the rules forbid.
        """
        state = State(self.game, actions, self.start_text)
        steps: list[VariationStep] = []
        for action in line:
            placed = self._place(state, self._cells(state), action)
            owner = self.owner_of_moves(state.to_play)
            state.apply(action)
            after = self._cells(state)
            glyph = after[placed.points[0]] if placed.points else ""
            steps.append(VariationStep(placed, owner, "" if glyph == self._empty else glyph))
        return tuple(steps)

    def _picture(self, actions: Sequence[int]) -> str:
        """Return the game's own picture; empty if it has none, or has a mistake."""
        if self._drawing is None:
            return ""
        try:
            start = self.start_text
            position = self._drawing.set_up(start) if start else self._drawing.start()
            for action in actions:
                position.apply(action)
            return position.svg()
        except ConfigError as error:
            _log.warning("picture_refused", reason=str(error))
            return ""

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
        """Return the owner of a player's pieces: the player, or -1 if both place the same ones."""
        return player if player in self._owners.values() else _NOBODY

    def _cells(self, state: State) -> tuple[str, ...]:
        grid = read_grid(_plain(state), self._rows, self._columns) if self._has_grid else None
        return () if grid is None else grid.cells

    def _place(self, state: State, cells: tuple[str, ...], action: int) -> BoardAction:
        """Return the points of an action in a position with those cells."""
        text = state.action_to_san(action)
        if self._plain_points:
            return BoardAction(action, text, (action,) if action < len(cells) else ())
        if not cells:
            return BoardAction(action, text, ())
        after = state.copy()
        after.apply(action)
        points, source = self._changed(cells, self._cells(after), state.to_play)
        if source is None and len(text) > 2 and text.isalpha():
            points = ()  # such as swap, whose changes are not what a click means: a button
        return BoardAction(action, text, points, source)

    def _changed(
        self, before: tuple[str, ...], after: tuple[str, ...], player: int
    ) -> tuple[tuple[int, ...], int | None]:
        """Return the points where an action placed something, and the point that its piece left."""
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
        if not put:  # an action that picks up a piece, as in Amazons
            return tuple(emptied), None
        for target in sorted(put, key=lambda point: after[point].lower() != "k"):  # castling
            source = self._source(before, after[target], emptied, player)
            if source is not None:
                return (target,), source
        return tuple(put), None

    def _source(
        self, before: tuple[str, ...], glyph: str, emptied: Sequence[int], player: int
    ) -> int | None:
        """Return the point that a piece left: it looked the same there, or was the player's."""
        alike = [point for point in emptied if before[point] == glyph]
        owned = [point for point in emptied if self._owner(before[point]) == player]
        return next(iter(alike or owned), None)

    def _owner(self, glyph: str) -> int:
        owner = self._owners.get(glyph)
        if owner is not None or not glyph.isalpha():
            return _NOBODY if owner is None else owner
        # A piece that was never seen to move belongs to its side if the sides use different cases.
        alike = {
            self._owners[known] for known in self._owners if known.isupper() == glyph.isupper()
        }
        unlike = {
            self._owners[known] for known in self._owners if known.isupper() != glyph.isupper()
        }
        return alike.pop() if len(alike) == 1 and alike.isdisjoint(unlike) else _NOBODY

    def _learn_owners(self, state: State) -> None:
        """Play random games and record who places which piece; in checkers kings come late."""
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
        white_first = self.names[0].casefold() == "white"
        if grid is None and self._drawing is not None:
            return BoardGrid(
                "squares", "letters", self._rows, self._columns, (), (), (), True, white_first
            )
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
            pictured=self._drawing is not None,
            white_first=white_first or self._pieces(grid) == "chess",
        )

    def _style(self, grid: TextGrid) -> Style:
        if grid.indent:
            return "hexagons"
        return _STYLES.get(self._family, "chequered" if self._moves_pieces else "squares")

    def _pieces(self, grid: TextGrid) -> Pieces:
        if self._family in _MARKED:
            return "marks"
        if self._family in _CHESS:
            return "chess"
        if grid.forsyth:
            return "letters"
        return "stones" if len(self._owners) == len(set(self._owners.values())) else "letters"


def _drawing_rules(game: str) -> ClassRules | None:
    """Return the rules of a class that draws its positions; None for any other game."""
    rules = outside_rules(game) if game.startswith("python:") else None
    return rules if isinstance(rules, ClassRules) and rules.draws else None


@lru_cache(maxsize=32)
def board_of(game: str) -> GameBoard:
    """Return the board of a game, made once.

    Raises:
        ConfigError: there is no such game.
    """
    return GameBoard(game)


def _plain(state: State) -> str:
    return _TERMINAL_COLOURS.sub("", str(state))
