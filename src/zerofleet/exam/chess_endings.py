"""Whole games of chess from won endings, against the best defence.

The player has one of the materials in ``ENDINGS`` against a bare king, in a position that perfect
play wins. The defender takes a draw if it can. Otherwise it delays the mate as long as possible.
The rules end a game after 50 moves without a pawn's move, so a player that makes no progress does
not win.

The number of plies to mate comes from retrograde analysis of all positions of a material
(``EndingTable``). That takes a few seconds for each process.
"""

from __future__ import annotations

import asyncio
import functools
import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from zerofleet_core import State

from zerofleet.errors import ConfigError
from zerofleet.exam.examined_player import ExaminedPlayer
from zerofleet.exam.solver_games import PerfectPlay

ENDINGS = ("KQK", "KRK", "KBBK", "KPK")
"""Materials of the games; the two bishops have different colours."""

UNKNOWN = 255
"""Entry of a table for a position that is drawn or impossible."""
_MOST_PLIES = 120
_SIDES = 8
_SQUARES = _SIDES * _SIDES
_LINES = ((1, 0), (-1, 0), (0, 1), (0, -1))
_DIAGONALS = ((1, 1), (1, -1), (-1, 1), (-1, -1))
_DIRECTIONS = {"Q": (*_LINES, *_DIAGONALS), "R": _LINES, "B": _DIAGONALS}

Mask = NDArray[np.bool_]


def _rays(square: int, directions: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the squares in each direction from a square, nearest first."""
    rays: list[list[int]] = []
    for right, up in directions:
        rays.append([])
        file, rank = square % _SIDES + right, square // _SIDES + up
        while 0 <= file < _SIDES and 0 <= rank < _SIDES:
            rays[-1].append(_SIDES * rank + file)
            file, rank = file + right, rank + up
    return rays


def _steps(square: int) -> list[int]:
    """Return the squares that a king reaches in one move."""
    return [ray[0] for ray in _rays(square, _DIRECTIONS["Q"]) if ray]


def _near() -> Mask:
    """Return whether two squares are the same or neighbours, [64, 64]."""
    near = np.eye(_SQUARES, dtype=np.bool_)
    for square in range(_SQUARES):
        near[square, _steps(square)] = True
    return near


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of the stronger side, and what its moves depend on: the two kings."""

    kind: str
    squares: list[int]  # where it can be

    def moves(self, square: int) -> list[tuple[int, list[int]]]:
        """Return the targets of its moves, each with the squares that must be free before it."""
        if self.kind == "P":
            steps = [square + _SIDES, square + 2 * _SIDES][: 2 if square < 2 * _SIDES else 1]
            return [(each, steps[:number]) for number, each in enumerate(steps)]
        rays = _rays(square, _DIRECTIONS[self.kind])
        return [(each, ray[:number]) for ray in rays for number, each in enumerate(ray)]

    def attacks(self) -> Mask:
        """Return whether it attacks the bare king, [its king, bare king, its squares]."""
        found = np.zeros((_SQUARES, _SQUARES, len(self.squares)), np.bool_)
        for place, square in enumerate(self.squares):
            if self.kind == "P":
                for ray in _rays(square, _DIAGONALS[::2]):
                    found[:, ray[:1], place] = True
                continue
            for target, between in self.moves(square):
                found[:, target, place] = True
                found[between, target, place] = False
        return found


def _pieces(material: str) -> list[_Piece]:
    every = list(range(_SQUARES))
    dark = [each for each in every if (each % _SIDES + each // _SIDES) % 2 == 0]
    light = [each for each in every if each not in dark]
    if material == "KBBK":
        return [_Piece("B", dark), _Piece("B", light)]
    pawn = material == "KPK"
    return [_Piece(material[1], every[_SIDES:-_SIDES] if pawn else every)]


class EndingTable:
    """Plies to mate under best play, for all positions of a material against a bare king.

    Positions are arrays with the axes [king, bare king, piece, ...]. A square is 8 * rank + file.
    A pawn moves to higher ranks. Each piece has an axis of the squares where it can be.

    Args:
        material: one of ``ENDINGS``.
    """

    def __init__(self, material: str) -> None:
        self.pieces = _pieces(material)
        shape = (_SQUARES, _SQUARES, *(len(piece.squares) for piece in self.pieces))
        self.strong = np.full(shape, UNKNOWN, np.uint8)
        """Plies to mate with the stronger side to move; ``UNKNOWN``: drawn or impossible."""
        self.weak = np.full(shape, UNKNOWN, np.uint8)
        """The same with the bare king to move."""
        self._near = _near()
        queen_or_rook = ("KQK", "KRK") if material == "KPK" else ()
        self._promoted = [ending_table(each) for each in queen_or_rook]
        self._solve()

    def _axis(self, number: int, values: NDArray[np.bool_]) -> Mask:
        """Return [king, bare king, squares] of one piece so that it broadcasts to all positions."""
        shape = [_SQUARES, _SQUARES, *(1 for _ in self.pieces)]
        shape[2 + number] = values.shape[2]
        return values.reshape(shape)

    def _solve(self) -> None:
        """Fill the tables, first the mates and then the positions before them."""
        attacked = np.zeros(self.strong.shape, np.bool_)  # a piece attacks the bare king
        occupied = np.zeros(self.strong.shape, np.bool_)  # two pieces on one square
        taken = np.zeros(self.strong.shape, np.bool_)  # by the bare king
        for number, piece in enumerate(self.pieces):
            attacked |= self._axis(number, piece.attacks())
            same = np.eye(_SQUARES, dtype=np.bool_)[:, piece.squares]
            occupied |= self._axis(number, np.repeat(same[:, None], _SQUARES, axis=1))
            taken |= self._axis(number, np.repeat(same[None], _SQUARES, axis=0))
        near = self._near.reshape(_SQUARES, _SQUARES, *(1 for _ in self.pieces))
        possible = ~(near | occupied | taken)  # with the bare king to move
        no_escape = near | attacked  # squares that the bare king may not enter
        stuck = self._all_escapes(no_escape)
        mates = possible & stuck & attacked
        may_move = possible & ~stuck
        self.weak[mates] = 0
        legal = possible & ~attacked  # with the stronger side to move
        new = mates
        for plies in range(0, _MOST_PLIES, 2):
            hit = self._before(new, plies) & legal & (self.strong == UNKNOWN)
            self.strong[hit] = plies + 1
            won = (self.strong != UNKNOWN) | no_escape
            new = may_move & (self.weak == UNKNOWN) & self._all_escapes(won)
            self.weak[new] = plies + 2
            if not (new.any() or self._promoted):
                break

    def _all_escapes(self, lost: Mask) -> Mask:
        """Return where each move of the bare king leads to a square that is ``lost``."""
        found = np.ones_like(lost)
        for square in range(_SQUARES):
            for target in _steps(square):
                found[:, square] &= lost[:, target]
        return found

    def _before(self, after: Mask, plies: int) -> Mask:
        """Return where a move of the stronger side leads to one of the positions ``after``.

        Args:
            plies: plies to mate there, for moves that promote a pawn.
        """
        found = np.zeros_like(after)
        for square in range(_SQUARES):
            for target in _steps(square):
                found[square] |= after[target]
        for number, piece in enumerate(self.pieces):
            places = {square: place for place, square in enumerate(piece.squares)}
            to, out = np.moveaxis(after, 2 + number, 2), np.moveaxis(found, 2 + number, 2)
            for square, place in places.items():
                for target, between in piece.moves(square):
                    if target in places:
                        reached = to[:, :, places[target]].copy()
                    else:  # the pawn promotes
                        tables = [each.weak[:, :, target] == plies for each in self._promoted]
                        reached = np.logical_or.reduce(tables)
                    reached[between] = False
                    reached[:, between] = False
                    out[:, :, place] |= reached
        return found


@functools.cache
def ending_table(material: str) -> EndingTable:
    """Return the table of a material; it is computed once in a process."""
    return EndingTable(material)


def plies_to_mate(fen: str) -> int | None:
    """Return the plies to mate under best play of a side against a bare king.

    Args:
        fen: a possible position in Forsyth-Edwards notation. Its counters are ignored.

    Returns:
        None for a draw, and for every material that ``ENDINGS`` does not have.
    """
    placement, to_move = fen.split()[:2]
    squares_of: dict[str, list[int]] = {}
    for rank, row in zip(reversed(range(_SIDES)), placement.split("/"), strict=True):
        file = 0
        for letter in row:
            if letter.isdecimal():
                file += int(letter)
            else:
                squares_of.setdefault(letter, []).append(_SIDES * rank + file)
                file += 1
    strong_is_white = any(letter.isupper() and letter != "K" for letter in squares_of)
    king, bare_king = ("K", "k") if strong_is_white else ("k", "K")
    pieces = sorted(set(squares_of) - {"K", "k"})
    material = f"K{''.join(each.upper() * len(squares_of[each]) for each in pieces)}K"
    if material not in ENDINGS:
        return None
    table = ending_table(material)
    turned = 0 if strong_is_white else _SQUARES - _SIDES  # black pawns move to lower ranks
    squares = [square ^ turned for each in pieces for square in squares_of[each]]
    index = [squares_of[king][0] ^ turned, squares_of[bare_king][0] ^ turned]
    for piece in table.pieces:
        index += [place for place, square in enumerate(piece.squares) if square in squares]
    strong_to_move = (to_move == "w") == strong_is_white
    plies = int((table.strong if strong_to_move else table.weak)[tuple(index)])
    return None if plies == UNKNOWN else plies


def won_positions(material: str, count: int, seed: int) -> list[str]:
    """Return positions of a material as FEN in which the player to move can force mate.

    Args:
        material: one of ``ENDINGS``.
        count: number of positions; all are different.
        seed: seed of the positions and of the stronger side's colour.

    Raises:
        ConfigError: the material has fewer such positions.
    """
    table = ending_table(material)
    generator = random.Random(f"{material} {seed}")
    found = np.flatnonzero(table.strong != UNKNOWN)
    if count > len(found):
        raise ConfigError(
            f"{count:,} games from won positions of {material}: it has {len(found):,} of them. "
            "Ask for fewer games."
        )
    return [
        _fen(table, int(found[place]), generator.random() < 0.5)
        for place in generator.sample(range(len(found)), count)
    ]


def _fen(table: EndingTable, index: int, strong_is_white: bool) -> str:
    king, bare_king, *places = map(int, np.unravel_index(index, table.strong.shape))
    letter_at = {king: "K", bare_king: "k"}
    letter_at |= {each.squares[p]: each.kind for each, p in zip(table.pieces, places, strict=True)}
    if not strong_is_white:
        turned = _SQUARES - _SIDES
        letter_at = {square ^ turned: letter.swapcase() for square, letter in letter_at.items()}
    rows: list[str] = []
    for rank in reversed(range(_SIDES)):
        row = "".join(letter_at.get(_SIDES * rank + file, ".") for file in range(_SIDES))
        rows.append(re.sub(r"\.+", lambda empty: str(len(empty[0])), row))
    return f"{'/'.join(rows)} {'w' if strong_is_white else 'b'} - - 0 1"


@dataclass(slots=True)
class _WonEnding:
    """A game from a won position; the player has the stronger side."""

    start: str
    state: State
    actions: list[int] = field(default_factory=list[int])
    is_won: bool = True  # under perfect play from here on
    given_away: int = 0

    def play(self, action: int) -> None:
        self.state.apply(action)
        self.actions.append(action)


async def play_endings(
    player: ExaminedPlayer, material: str, games: int, seed: int = 1
) -> PerfectPlay:
    """Play games from won positions of a material; a game that ends without a mate is a draw.

    Args:
        player: a player of chess that always answers the same position the same way.
        material: one of ``ENDINGS``.
        games: number of games, each from another position.
        seed: seed of the positions and of the defender's choice among equally good moves.
    """
    # In a thread, because a table takes seconds.
    starts = await asyncio.to_thread(won_positions, material, games, seed)
    generator = random.Random(seed)
    begun = [_WonEnding(start, State(player.game, [], start)) for start in starts]
    going = list(begun)
    while going:
        results = await player.search(
            [game.actions for game in going], [game.start for game in going]
        )
        for game, result in zip(going, results, strict=True):
            game.play(result.best_action)
            if game.state.is_terminal:
                game.given_away += game.is_won and game.state.result == 0
                continue
            if game.is_won and plies_to_mate(game.state.setup_text()) is None:
                game.is_won = False
                game.given_away += 1
            game.play(_best_defence(game.state, generator))
        going = [game for game in going if not game.state.is_terminal]
    mated = sum(game.state.result != 0 for game in begun)
    given_away = sum(game.given_away for game in begun)
    return PerfectPlay(games, mated, games - mated, mated, given_away)


def _best_defence(state: State, generator: random.Random) -> int:
    """Return a move of the bare king that draws, or else delays the mate longest."""
    plies: dict[int, float] = {}
    for action in state.legal_actions():
        after = state.copy()
        after.apply(action)
        left = None if after.is_terminal else plies_to_mate(after.setup_text())
        plies[action] = math.inf if left is None else left
    longest = max(plies.values())
    return generator.choice([action for action, left in plies.items() if left == longest])
