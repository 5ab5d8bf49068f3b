"""A position as an SVG picture, for notebooks and pages without a script."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

from zerofleet.games.game_board import (
    EMPTY,
    BoardAction,
    BoardGrid,
    BoardPosition,
    GameBoard,
    Piece,
)

_CELL = 40
_NAMES = 18  # for the names of rows and columns
_LINE_HEIGHT = 17  # a game may be shown as text
_CHESS_GLYPHS = {"k": "♚", "q": "♛", "r": "♜", "b": "♝", "n": "♞", "p": "♟"}
# Field, second field, lines, pieces of the first and the second player, as on the dashboard.
_PLAIN = ("#eceff1", "#cfd8dc", "#90a4ae", "#22272b", "#fbfbf8")
_COLOURS = {
    "lines": ("#e2c48c", "#e2c48c", "#6d5626", "#22272b", "#fbfbf8"),
    "felt": ("#3b7a57", "#3b7a57", "#24523a", "#22272b", "#fbfbf8"),
    "frame": ("#35588a", "#35588a", "#27436b", "#c8382f", "#f2c230"),
    "chequered": ("#e9e3d3", "#a9b6a0", "#a9b6a0", "#23272a", "#fdfdfb"),
}
_MARK_COLOURS = ("#01579b", "#c2410c")  # X and O
_LAST, _VISITED = "#d84315", "#0277bd"


def board_svg(
    board: GameBoard, position: BoardPosition, shares: Mapping[int, float] | None = None
) -> str:
    """Return an SVG picture of a position; a game without a grid is its text.

    Args:
        board: board of the game.
        position: a position of this board.
        shares: share of the visits, or probability, in [0, 1] by action; drawn as circles.
    """
    shape = board.shape
    if shape.style == "text":
        return _text_svg(position.text)
    return _Drawing(shape).svg(position, shares or {})


def _text_svg(text: str) -> str:
    lines = text.splitlines() or [""]
    width = 16 + max(map(len, lines)) * 8.5
    rows = "".join(
        f'<text x="8" y="{_LINE_HEIGHT * (number + 1)}" xml:space="preserve">{escape(line)}</text>'
        for number, line in enumerate(lines)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" '
        f'height="{_LINE_HEIGHT * (len(lines) + 1)}" font-family="monospace" font-size="14">'
        f"{rows}</svg>"
    )


class _Drawing:
    """The shapes of one board."""

    def __init__(self, shape: BoardGrid) -> None:
        self._shape = shape
        self._is_hexagonal = shape.style == "hexagons"
        self._field, self._dark, self._rule, *self._colours = _COLOURS.get(shape.style, _PLAIN)
        if shape.pieces == "marks":
            self._colours = list(_MARK_COLOURS)
        if shape.white_first:
            self._colours.reverse()

    def svg(self, position: BoardPosition, shares: Mapping[int, float]) -> str:
        shape = self._shape
        wide = _CELL * (shape.columns + (0.5 * (shape.rows - 1) if self._is_hexagonal else 0))
        rise = math.sqrt(3) / 2 if self._is_hexagonal else 1
        high = _CELL * (rise * (shape.rows - 1) + 1) + (6 if self._is_hexagonal else 0)
        left = _NAMES if shape.row_names else 1
        below = _NAMES if shape.column_names else 1
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-left} -1 {wide + left + 1:g} '
            f'{high + below + 1:g}" width="{wide + left + 1:g}" role="img" '
            'font-family="sans-serif" text-anchor="middle" dominant-baseline="central">',
            f"<title>Board after {position.ply} plies</title>",
            *self._fields(wide, high),
            *self._names(high),
            *self._pieces(position),
            *self._last(position.last),
            *self._shares(position, shares),
            "</svg>",
        ]
        return "".join(parts)

    def _at(self, point: int) -> tuple[float, float]:
        row, column = divmod(point, self._shape.columns)
        if self._is_hexagonal:
            return _CELL * (column + 0.5 + row / 2), _CELL * (math.sqrt(3) / 2 * row + 0.5) + 3
        return _CELL * (column + 0.5), _CELL * (row + 0.5)

    def _fields(self, wide: float, high: float) -> list[str]:
        shape, points = self._shape, range(self._shape.rows * self._shape.columns)
        if self._is_hexagonal:
            return [self._hexagon(point) for point in points]
        parts = [f'<rect width="{wide:g}" height="{high:g}" rx="3" fill="{self._field}"/>']
        if shape.style == "chequered":
            dark = (point for point in points if sum(divmod(point, shape.columns)) % 2)
            return parts + [
                f'<rect x="{x - 20:g}" y="{y - 20:g}" width="40" height="40" fill="{self._dark}"/>'
                for x, y in map(self._at, dark)
            ]
        if shape.style == "frame":
            return parts + [self._circle(point, 16.5, "#fff", self._rule) for point in points]
        is_crossed = shape.style == "lines"  # pieces stand where lines cross
        shift, extra = (_CELL // 2, 0) if is_crossed else (0, 1)
        rows = (r * _CELL + shift for r in range(shape.rows + extra))
        columns = (c * _CELL + shift for c in range(shape.columns + extra))
        path = "".join(f"M{shift} {y}H{wide - shift:g}" for y in rows)
        path += "".join(f"M{x} {shift}V{high - shift:g}" for x in columns)
        parts.append(f'<path d="{path}" stroke="{self._rule}" stroke-width="1.2" fill="none"/>')
        return parts + [self._circle(star, 3.2, self._rule) for star in shape.stars]

    def _hexagon(self, point: int) -> str:
        x, y = self._at(point)
        side = _CELL / math.sqrt(3)
        angles = (math.radians(degrees) for degrees in range(30, 390, 60))
        corners = " ".join(
            f"{x + side * math.cos(each):.1f},{y + side * math.sin(each):.1f}" for each in angles
        )
        return f'<polygon points="{corners}" fill="{self._field}" stroke="{self._rule}"/>'

    def _names(self, high: float) -> list[str]:
        rows = (
            (x - (_CELL + _NAMES) / 2, y, name)
            for row, name in enumerate(self._shape.row_names)
            for x, y in [self._at(row * self._shape.columns)]
        )
        last_row = (self._shape.rows - 1) * self._shape.columns
        columns = (
            (self._at(last_row + column)[0], high + _NAMES / 2, name)
            for column, name in enumerate(self._shape.column_names)
        )
        return [
            f'<text x="{x:g}" y="{y:g}" font-size="12" fill="#78909c">{escape(name)}</text>'
            for x, y, name in (*rows, *columns)
        ]

    def _pieces(self, position: BoardPosition) -> list[str]:
        """Draw the game's own picture, whose elements were checked, or else each piece."""
        if position.picture:
            return [f'<g transform="scale({_CELL})">{position.picture}</g>']
        return [self._piece(piece) for piece in position.pieces]

    def _piece(self, piece: Piece) -> str:
        x, y = self._at(piece.point)
        colour = self._colours[piece.owner] if piece.owner >= 0 else self._rule
        if self._shape.pieces == "marks":
            if piece.owner:
                return (
                    f'<circle cx="{x:g}" cy="{y:g}" r="11" fill="none" stroke="{colour}" '
                    'stroke-width="5"/>'
                )
            return (
                f'<path d="M{x - 11:g} {y - 11:g}l22 22m0-22l-22 22" stroke="{colour}" '
                'stroke-width="5"/>'
            )
        glyph = _CHESS_GLYPHS.get(piece.glyph.lower()) if self._shape.pieces == "chess" else None
        if glyph is not None:
            return (
                f'<text x="{x:g}" y="{y:g}" font-size="34" fill="{colour}" stroke="#1c1c1c" '
                f'stroke-width="0.8">{glyph}</text>'
            )
        disc = self._circle(piece.point, 16.5, colour, "#37474f")
        if self._shape.pieces != "letters" or piece.glyph == EMPTY:
            return disc
        is_dark = piece.owner == (1 if self._shape.white_first else 0)
        ink = "#fbfbf8" if is_dark else "#22272b"
        return (
            f'{disc}<text x="{x:g}" y="{y:g}" font-size="16" fill="{ink}">'
            f"{escape(piece.glyph)}</text>"
        )

    def _last(self, last: BoardAction | None) -> list[str]:
        if last is None:
            return []
        points = last.points if last.source is None else (last.source, *last.points)
        if last.source is None and self._shape.pieces != "marks":
            return [self._circle(point, 6, "none", _LAST, 3) for point in points]
        return [
            f'<rect x="{x - 19:g}" y="{y - 19:g}" width="38" height="38" fill="none" '
            f'stroke="{_LAST}" stroke-width="2"/>'
            for x, y in map(self._at, points)
        ]

    def _shares(self, position: BoardPosition, shares: Mapping[int, float]) -> list[str]:
        """Draw the greatest share of each point, and its percentage."""
        greatest: dict[int, float] = {}
        for action in position.actions:
            for point in action.points[:1]:
                greatest[point] = max(greatest.get(point, 0.0), shares.get(action.action, 0.0))
        parts: list[str] = []
        for point, share in greatest.items():
            if share <= 0:
                continue
            x, y = self._at(point)
            radius = 5 + 12.5 * math.sqrt(min(share, 1.0))
            parts.append(
                f'<circle cx="{x:g}" cy="{y:g}" r="{radius:.1f}" fill="{_VISITED}" opacity="0.6"/>'
                f'<text x="{x:g}" y="{y:g}" font-size="11" stroke="#fff" stroke-width="3" '
                f'paint-order="stroke">{100 * share:.0f}</text>'
            )
        return parts

    def _circle(
        self, point: int, radius: float, fill: str, stroke: str = "none", width: float = 1
    ) -> str:
        x, y = self._at(point)
        return (
            f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}" stroke="{stroke}" '
            f'stroke-width="{width:g}"/>'
        )
