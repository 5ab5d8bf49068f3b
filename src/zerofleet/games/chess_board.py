"""Chess on a board: captured pieces, and the king in check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zerofleet_core import State

from zerofleet.games.game_specs import spec

_SIZE = 8
_VALUES = {"q": 9, "r": 5, "b": 3, "n": 3, "p": 1}  # in pawns, strongest first
_NAMES = {"q": "queen", "r": "rook", "b": "bishop", "n": "knight", "p": "pawn"}
_STRAIGHT = ((0, 1), (1, 0), (0, -1), (-1, 0))  # rows, columns
_DIAGONAL = ((1, 1), (1, -1), (-1, 1), (-1, -1))
_KNIGHT = ((1, 2), (2, 1), (-1, 2), (-2, 1), (1, -2), (2, -1), (-1, -2), (-2, -1))


@dataclass(frozen=True, slots=True)
class CapturedPieces:
    """The pieces that one player has captured."""

    glyphs: tuple[str, ...]  # letters of Forsyth notation, queens first
    lead: int  # pawns by which the player's pieces on the board are worth more; 0: not ahead
    words: str


def captured_pieces(
    game: str, actions: Sequence[int], start: str, names: tuple[str, str]
) -> tuple[CapturedPieces, CapturedPieces]:
    """Return what each player has captured in a game of chess.

    Args:
        game: chess of the core or of OpenSpiel.
        actions: legal actions from the start position.
        start: start position; empty: the usual one.
        names: names of both players.
    """
    has_setup = spec(game).sets_up_positions
    state = State(game, [], start)

    def pieces() -> Counter[str]:
        text = state.setup_text() if has_setup else str(state)
        return Counter(letter for letter in text.split(" ", 1)[0] if letter.isalpha())

    taken: tuple[list[str], list[str]] = ([], [])
    on_board = pieces()
    for action in actions:
        mover = state.to_play
        state.apply(action)
        after = pieces()
        # A promoted pawn is the only piece of the mover's own that disappears.
        taken[mover].extend(
            letter for letter in on_board - after if letter.islower() == (mover == 0)
        )
        on_board = after
    white_lead = sum(
        value * (on_board[letter.upper()] - on_board[letter]) for letter, value in _VALUES.items()
    )
    white, black = (
        _captured(letters, max(0, lead), name)
        for letters, lead, name in zip(taken, (white_lead, -white_lead), names, strict=True)
    )
    return white, black


def _captured(letters: Iterable[str], lead: int, name: str) -> CapturedPieces:
    order = list(_VALUES)
    glyphs = tuple(sorted(letters, key=lambda letter: order.index(letter.lower())))
    counts = Counter(_NAMES[letter.lower()] for letter in glyphs)
    listed = [f"{count} {piece}{'s' if count > 1 else ''}" for piece, count in counts.items()]
    ahead = f"; {lead} ahead" if lead else ""
    return CapturedPieces(glyphs, lead, f"Captured by {name}: {', '.join(listed) or 'none'}{ahead}")


def checked_king(cells: Sequence[str], to_play: int) -> int | None:
    """Return the point of the king of the player to move if it is in check.

    Args:
        cells: letter of Forsyth notation for each of the 64 squares, row by row from the eighth
            rank; a text without letters for an empty square.
        to_play: 0 White, 1 Black.
    """
    king, theirs = ("K", str.lower) if to_play == 0 else ("k", str.upper)
    if king not in cells:
        return None
    point = cells.index(king)
    row, column = divmod(point, _SIZE)

    def seen(down: int, right: int, most: int = _SIZE) -> tuple[str, int]:
        """Return the first piece in a direction, and how many steps away it is."""
        for steps in range(1, most + 1):
            r, c = row + steps * down, column + steps * right
            if not (0 <= r < _SIZE and 0 <= c < _SIZE):
                break
            if cells[r * _SIZE + c].isalpha():
                return cells[r * _SIZE + c], steps
        return "", 0

    for directions, slider in ((_STRAIGHT, "r"), (_DIAGONAL, "b")):
        for down, right in directions:
            piece, steps = seen(down, right)
            if piece in (theirs(slider), theirs("q")) or (piece == theirs("k") and steps == 1):
                return point
    if any(seen(*jump, 1)[0] == theirs("n") for jump in _KNIGHT):
        return point
    forward = -1 if to_play == 0 else 1  # towards the other player
    if any(seen(forward, side, 1)[0] == theirs("p") for side in (-1, 1)):
        return point
    return None
