"""Make the positions of the chess exam: three and four pieces, each legal move with its outcome.

The outcomes come from Syzygy tables (de Man 2013), which the source archive of python-chess
contains for all 35 kinds of material with up to four pieces:

    pip download --no-deps --no-binary :all: chess
    tar xf chess-*.tar.gz
    python scripts/chess_endgames.py chess-*/data/syzygy/regular

The script needs python-chess, which the tests install. It overwrites
``src/zerofleet/exam/chess_endgames.txt``, always with the same contents. A line has three columns
with tabs between them:

- a position in Forsyth-Edwards notation (FEN);
- a sign for each legal move: ``+`` wins, ``=`` draws and ``-`` loses for the player to move. The
  moves are in alphabetical order of their UCI names;
- the material, such as KRKB. The side with more material comes first.

A win that the 50-move rule would spoil counts as a draw.

The sample is balanced. Each combination of material, the side to move (the side with more material
or the other) and the outcome (win or draw) has equally many positions where it can. Every position
has moves with different outcomes, so that an error is possible.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from pathlib import Path

import chess
import chess.syzygy

OUTPUT = Path(__file__).parent.parent / "src/zerofleet/exam/chess_endgames.txt"
POSITIONS = 2_000
SEED = 1
TRIES = 4_000
"""Random positions to look at for each cell; rare outcomes get fewer positions than others."""

PIECES = "QRBNP"
WORTH = {"Q": 9, "R": 5, "B": 3, "N": 3, "P": 1}
SIGNS = {1: "+", 0: "=", -1: "-"}


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of the balance."""

    strong: str  # the side with more material has these pieces and a king
    weak: str
    strong_to_move: bool
    outcome: int  # the player to move gets it under perfect play: 1 or 0

    @property
    def material(self) -> str:
        """Name of the material, such as KRKB."""
        return f"K{self.strong}K{self.weak}"


def cells() -> list[Cell]:
    """Return all combinations of material that can mate; a few of them have no position.

    A bare king never wins, so that combination is left out.
    """
    materials = [(piece, "") for piece in "QRP"]  # a bishop or a knight alone cannot mate
    materials += [("".join(pair), "") for pair in combinations_with_replacement(PIECES, 2)]
    materials += list(combinations_with_replacement(PIECES, 2))
    return [
        Cell(strong, weak, strong_to_move, outcome)
        for strong, weak in materials
        for strong_to_move in ((True, False) if strong != weak else (True,))
        for outcome in (1, 0)
        if weak or strong_to_move or outcome == 0
    ]


def drawn(cell: Cell, tables: chess.syzygy.Tablebase, generator: random.Random) -> Iterator[str]:
    """Yield lines of the file for different positions of one cell."""
    seen: set[str] = set()
    for _ in range(TRIES):
        board = random_board(cell, generator)
        if not board.is_valid() or board.is_game_over():
            continue
        # One look at the table refuses most positions, before the look at each move.
        if sign_of(tables.probe_wdl(board)) != cell.outcome:
            continue
        outcomes = {move.uci(): outcome_of(board, move, tables) for move in board.legal_moves}
        if max(outcomes.values()) != cell.outcome or len(set(outcomes.values())) == 1:
            continue
        fen = board.fen()
        if fen not in seen:
            seen.add(fen)
            signs = "".join(SIGNS[outcomes[name]] for name in sorted(outcomes))
            yield f"{fen}\t{signs}\t{cell.material}"


def random_board(cell: Cell, generator: random.Random) -> chess.Board:
    """Return a board with the cell's pieces on random squares; it may be an impossible position."""
    strong_colour = generator.choice(chess.COLORS)
    board = chess.Board(None)
    pieces = [(kind, strong_colour) for kind in "K" + cell.strong]
    pieces += [(kind, not strong_colour) for kind in "K" + cell.weak]
    for (kind, colour), square in zip(
        pieces, generator.sample(range(64), len(pieces)), strict=True
    ):
        board.set_piece_at(square, chess.Piece(chess.Piece.from_symbol(kind).piece_type, colour))
    board.turn = strong_colour == cell.strong_to_move
    return board


def outcome_of(board: chess.Board, move: chess.Move, tables: chess.syzygy.Tablebase) -> int:
    """Return the outcome of a move under perfect play: +1, 0 or -1 for the player who makes it."""
    board.push(move)
    try:
        if board.is_checkmate():
            return 1
        if board.is_stalemate() or board.is_insufficient_material():
            return 0
        return -sign_of(tables.probe_wdl(board))
    finally:
        board.pop()


def sign_of(value: int) -> int:
    """Return the outcome for an entry of a table: 2 is a win, 1 a win that 50 moves spoil."""
    return (value > 1) - (value < -1)


def sample(tables: chess.syzygy.Tablebase) -> list[str]:
    """Return the lines of the file, the cells in turn."""
    generator = random.Random(SEED)
    left = [drawn(cell, tables, generator) for cell in cells()]
    lines: list[str] = []
    while left and len(lines) < POSITIONS:
        for source in list(left):
            line = next(source, None)
            if line is None:
                left.remove(source)
            elif len(lines) < POSITIONS:
                lines.append(line)
    generator.shuffle(lines)
    return lines


def main() -> None:
    """Write the file and print the share of errors of random play."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tables", type=Path, help="folder with .rtbw files")
    folder = parser.parse_args().tables
    with chess.syzygy.open_tablebase(str(folder)) as tables:
        lines = sample(tables)
    OUTPUT.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
    shares = []
    for line in lines:
        signs = line.split("\t")[1]
        best = "+" if "+" in signs else "="
        shares.append(1 - signs.count(best) / len(signs))
    share = sum(shares) / len(shares)
    print(f"{len(lines)} positions in {OUTPUT}; random play makes errors in {share:.1%}")


if __name__ == "__main__":
    main()
