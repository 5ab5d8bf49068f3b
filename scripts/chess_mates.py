"""Make the mates of the chess exam: 500 positions with a forced mate in one, two or three moves.

    apt-get install stockfish
    python scripts/chess_mates.py /usr/games/stockfish

The positions are among the last of games of sharp random play, in which a player who can mate at
once does so. Stockfish finds the positions with a mate. An exact search then proves its length, and
labels each legal move. The file has a position only where both agree on the length.

The script needs python-chess, which the tests install. It overwrites
``src/zerofleet/exam/chess_mates.txt``; one version of Stockfish always gives the same contents. A
line has three columns with tabs between them:

- a position in Forsyth-Edwards notation (FEN), without castling rights and with new counters;
- a sign for each legal move: ``+`` keeps the shortest mate and ``=`` does not. The moves are in
  alphabetical order of their UCI names;
- ``mate in N``.

The lengths come in turns: one, two, three, one, and so on.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

import chess
import chess.engine

OUTPUT = Path(__file__).parent.parent / "src/zerofleet/exam/chess_mates.txt"
POSITIONS = 500
LENGTHS = (1, 2, 3)
SEED = 1
DEPTH = 8
"""Plies of Stockfish's search; it need not find every mate."""
MOST_PLIES = 160
LAST_PLIES = 9
"""Positions of this many plies before a checkmate are examined."""
LOUD = 0.7
"""Probability of a capture, check or promotion, where there is one."""


def play(generator: random.Random) -> list[chess.Board]:
    """Return the winner's last positions of a random game; none if it ended without checkmate."""
    board = chess.Board()
    boards: list[chess.Board] = []
    while len(boards) < MOST_PLIES and not board.is_game_over():
        boards.append(board.copy(stack=False))
        moves = list(board.legal_moves)
        checks = [move for move in moves if board.gives_check(move)]
        mates = [move for move in checks if is_mate(board, move)]
        loud = checks + [move for move in moves if board.is_capture(move) or move.promotion]
        choice = loud if loud and generator.random() < LOUD else moves
        board.push(generator.choice(mates or choice))
    return boards[: -LAST_PLIES - 1 : -2] if board.is_checkmate() else []


def is_mate(board: chess.Board, move: chess.Move) -> bool:
    """Return whether a move is checkmate."""
    board.push(move)
    mate = board.is_checkmate()
    board.pop()
    return mate


class MateSearch:
    """An exact search for forced mates. It tries the last refutation of each depth first."""

    def __init__(self) -> None:
        self._refutations: dict[int, chess.Move] = {}

    def wins(self, board: chess.Board, length: int) -> bool:
        """Return whether the player to move can force mate in at most this many moves."""
        if length == 1:
            return any(board.gives_check(m) and is_mate(board, m) for m in board.legal_moves)
        return any(self.keeps(board, move, length) for move in board.legal_moves)

    def keeps(self, board: chess.Board, move: chess.Move, length: int) -> bool:
        """Return whether a move still forces mate in at most ``length`` moves, itself included."""
        if length == 1:
            return is_mate(board, move)
        board.push(move)
        try:
            replies = list(board.legal_moves)
            if not replies:
                return board.is_check()
            if board.is_insufficient_material():
                return False
            last = self._refutations.get(length)
            if last in replies:
                replies.insert(0, last)
            return not any(self._refutes(board, reply, length) for reply in replies)
        finally:
            board.pop()

    def _refutes(self, board: chess.Board, reply: chess.Move, length: int) -> bool:
        board.push(reply)
        refutes = not self.wins(board, length - 1)
        board.pop()
        if refutes:
            self._refutations[length] = reply
        return refutes


def labelled(board: chess.Board, length: int) -> str | None:
    """Return the line of a position; None if its shortest mate has another length."""
    search = MateSearch()
    if any(search.wins(board, shorter) for shorter in range(1, length)):
        return None
    signs = {move.uci(): search.keeps(board, move, length) for move in board.legal_moves}
    if len(set(signs.values())) == 1:  # no mate, or no error is possible
        return None
    text = "".join("+" if signs[name] else "=" for name in sorted(signs))
    return f"{board.fen()}\t{text}\tmate in {length}"


def found(engine: chess.engine.SimpleEngine, wanted: set[int]) -> Iterator[tuple[int, str]]:
    """Yield the length of a mate and the line of its position; each length once for each game.

    Args:
        wanted: lengths to look for; the caller may remove some.
    """
    generator = random.Random(SEED)
    seen: set[str] = set()
    number = 0
    while True:
        lengths: set[int] = set()
        for board in play(generator):
            board.castling_rights = chess.BB_EMPTY
            board.halfmove_clock, board.fullmove_number = 0, 1
            number += 1
            info = engine.analyse(board, chess.engine.Limit(depth=DEPTH), game=number)
            score = info.get("score")
            length = score.relative.mate() if score is not None else None
            if length not in wanted or length in lengths or board.fen() in seen:
                continue
            line = labelled(board, length)
            if line is not None:
                seen.add(board.fen())
                lengths.add(length)
                yield length, line


def sample(engine: chess.engine.SimpleEngine) -> list[str]:
    """Return the lines of the file, the lengths in turns."""
    lines: dict[int, list[str]] = {length: [] for length in LENGTHS}
    each = -(-POSITIONS // len(LENGTHS))
    wanted = set(LENGTHS)
    for length, line in found(engine, wanted):
        lines[length].append(line)
        if len(lines[length]) == each:
            wanted.remove(length)
        if not wanted:
            break
    in_turns = [line for turn in zip(*lines.values(), strict=True) for line in turn]
    return in_turns[:POSITIONS]


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("stockfish", help="the program")
    with chess.engine.SimpleEngine.popen_uci(parser.parse_args().stockfish) as engine:
        engine.configure({"Threads": 1, "Hash": 1})
        lines = sample(engine)
    OUTPUT.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
    print(f"{len(lines)} positions in {OUTPUT}")


if __name__ == "__main__":
    main()
