"""Make the mates of the chess exam: 500 positions with a forced mate in one, two or three moves.

    apt-get install stockfish
    python scripts/chess_mates.py /usr/games/stockfish

The positions come from games of Stockfish against sharp random play, after a sharp random opening.
Stockfish finds the mates. An exact search then proves the length of each, and labels each legal
move. The file has a position only where both agree on the length. A game gives at most one position
of each length.

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
DEPTH = 6
"""Plies of Stockfish's search; it need not find every mate."""
OPENING_PLIES = (10, 30)
MOST_PLIES = 120
LOUD = 0.7
"""Probability of a capture, check or promotion, where there is one."""


def play(
    engine: chess.engine.SimpleEngine, generator: random.Random
) -> Iterator[tuple[chess.Board, int]]:
    """Yield the positions of one game where Stockfish finds a mate, each with its length."""
    board, game = chess.Board(), object()
    winner, opening = generator.choice(chess.COLORS), generator.randint(*OPENING_PLIES)
    while board.ply() < MOST_PLIES and not board.is_game_over():
        if board.turn != winner or board.ply() < opening:
            board.push(sharp_move(board, generator))
            continue
        limit = chess.engine.Limit(depth=DEPTH)
        answer = engine.play(board, limit, game=game, info=chess.engine.INFO_SCORE)
        score = answer.info.get("score")
        length = score.relative.mate() if score is not None else None
        if length in LENGTHS:
            yield board.copy(stack=False), length
        assert answer.move is not None
        board.push(answer.move)


def sharp_move(board: chess.Board, generator: random.Random) -> chess.Move:
    """Return a random move, often one of the sharp ones."""
    moves = list(board.legal_moves)
    loud = [
        move
        for move in moves
        if board.is_capture(move) or move.promotion or board.gives_check(move)
    ]
    return generator.choice(loud if loud and generator.random() < LOUD else moves)


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
    while True:
        lengths: set[int] = set()
        for board, length in play(engine, generator):
            if length not in wanted or length in lengths:
                continue
            board.castling_rights = chess.BB_EMPTY
            board.halfmove_clock, board.fullmove_number = 0, 1
            line = labelled(board, length)
            if line is not None and line not in seen:
                seen.add(line)
                lengths.add(length)
                yield length, line


def sample(engine: chess.engine.SimpleEngine) -> list[str]:
    """Return the lines of the file, the lengths in turns."""
    lines: dict[int, list[str]] = {length: [] for length in LENGTHS}
    each = -(-POSITIONS // len(LENGTHS))
    wanted = set(LENGTHS)
    for length, line in found(engine, wanted):
        lines[length].append(line)
        print(*(len(group) for group in lines.values()), flush=True)
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
