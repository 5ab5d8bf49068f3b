"""Compare chess with two other implementations: python-chess and OpenSpiel.

``ZEROFLEET_ORACLE_POSITIONS=1000000 ZEROFLEET_ORACLE_SEED=7`` compares this many positions, with
another seed. A failure shows the FEN of its position and the moves that led there.
"""

from __future__ import annotations

import os
import random
import runpy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pyspiel
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from zerofleet_core import GameColumns, ReplayBuffer, SearchConfig, SelfPlay, random_start

from zerofleet import games
from zerofleet.database import add_to_buffer
from zerofleet.errors import ConfigError
from zerofleet.games import State

GAME = "chess"
GAME960 = "chess(chess960=true)"
LONGEST = 512  # plies
SEED = int(os.environ.get("ZEROFLEET_ORACLE_SEED", "20"))
MANY = int(os.environ.get("ZEROFLEET_ORACLE_POSITIONS", "100000"))
REFERENCE = Path(__file__).resolve().parents[2] / "scripts" / "reference"

ENDINGS = {
    chess.Termination.CHECKMATE: "checkmate",
    chess.Termination.STALEMATE: "stalemate",
    chess.Termination.INSUFFICIENT_MATERIAL: "insufficient material",
}
START = chess.STARTING_FEN
SHARP = (
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1",
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    "rnbqkb1r/ppppp1pp/7n/4Pp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3",
    "8/8/8/4k3/8/8/3KBB2/8 w - - 80 120",
    "8/5P2/8/8/k7/8/2p5/K7 w - - 0 1",
)


def ending(board: chess.Board) -> str:
    """Return why the game is over, checked in the order of our rules; empty if it is not."""
    outcome = board.outcome()
    if outcome and outcome.termination in ENDINGS:
        return ENDINGS[outcome.termination]
    if board.is_repetition(3):
        return "repetition"
    if board.halfmove_clock >= 100:
        return "50-move rule"
    return "maximum length" if len(board.move_stack) == LONGEST else ""


def sharp(board: chess.Board, generator: random.Random) -> chess.Move:
    """Choose a move; mostly a capture, check, promotion, castling or double pawn step."""
    moves = list(board.legal_moves)
    loud = [
        move
        for move in moves
        if board.is_capture(move) or move.promotion or board.is_castling(move)
        or board.gives_check(move)
        or (board.piece_type_at(move.from_square) == chess.PAWN
            and abs(move.from_square - move.to_square) == 16)
    ]  # fmt: skip
    return generator.choice(loud if loud and generator.random() < 0.6 else moves)


def uniform(board: chess.Board, generator: random.Random) -> chess.Move:
    return generator.choice(list(board.legal_moves))


def compare(state: State, board: chess.Board, *, names: bool) -> None:
    """Compare one position of both implementations."""
    where = f"{board.fen()} after {[move.uci() for move in board.move_stack]}"
    fen = board.fen(shredder=True) if board.chess960 else board.fen()
    assert state.setup_text() == fen, where
    assert state.ending == ending(board), where
    assert state.is_terminal == bool(state.ending), where
    won = {"1-0": 1, "0-1": -1}.get(board.result(), 0)
    assert state.result == won, where
    moves = {} if state.is_terminal else {move.uci(): move for move in board.legal_moves}
    legal = {state.action_to_string(action): action for action in state.legal_actions()}
    assert legal.keys() == moves.keys(), where
    if not names:
        return
    for text, move in moves.items():
        assert state.action_to_san(legal[text]) == board.san(move), where
        assert state.string_to_action(board.san(move)) == legal[text], where
        assert state.string_to_action(text) == legal[text], where


Choice = Callable[[chess.Board, random.Random], chess.Move]


def play(
    fen: str, choose: Choice, generator: random.Random, *, chess960: bool = False
) -> Iterator[tuple[State, chess.Board]]:
    """Play a game by both rules and yield each position."""
    state = State(GAME960 if chess960 else GAME, start=fen)
    board = chess.Board(fen, chess960=chess960)
    while True:
        yield state, board
        if state.is_terminal:
            return
        move = choose(board, generator)
        state.apply(state.string_to_action(move.uci()))
        board.push(move)


def starts(generator: random.Random) -> Iterator[tuple[str, Choice, bool]]:
    """Yield starts and ways to choose moves, in turn, forever."""
    while True:
        yield START, sharp, False
        yield START, uniform, False
        for fen in SHARP:
            yield fen, sharp, False
        board = chess.Board.from_chess960_pos(generator.randrange(960))
        yield board.fen(shredder=True), sharp, True


def compare_positions(count: int, *, every: int) -> set[str]:
    """Compare positions with python-chess and return the endings that occurred."""
    generator, seen, endings = random.Random(SEED), 0, set[str]()
    for fen, choose, chess960 in starts(generator):
        for state, board in play(fen, choose, generator, chess960=chess960):
            seen += 1
            compare(state, board, names=seen % every == 0)
            if state.is_terminal:
                endings.add(state.ending)
        if seen >= count:
            return endings
    raise AssertionError


ALL_ENDINGS = {*ENDINGS.values(), "repetition", "50-move rule"}


@pytest.mark.slow
def test_the_rules_are_those_of_python_chess() -> None:
    compare_positions(3_000, every=10)


@pytest.mark.fleet
@pytest.mark.timeout(0)
def test_the_rules_are_those_of_python_chess_in_many_positions() -> None:
    assert compare_positions(MANY, every=20) >= ALL_ENDINGS


OURS = ("insufficient material", "maximum length")


def compare_with_openspiel(count: int) -> None:
    """Allow two differences: OpenSpiel plays on with same-coloured bishops and at any length."""
    rules, generator, seen = pyspiel.load_game("chess"), random.Random(SEED), 0
    for fen, choose, chess960 in starts(generator):
        if chess960:
            continue
        theirs = rules.new_initial_state(fen)
        for state, board in play(fen, choose, generator):
            where = f"{board.fen()} after {[move.uci() for move in board.move_stack]}"
            if board.move_stack:
                last = board.peek().uci()
                by_text = {
                    pyspiel.chess.action_to_move(action, theirs.board()).to_lan(): action
                    for action in theirs.legal_actions()
                }
                theirs.apply_action(by_text[last])
            seen += 1
            if state.ending in OURS and not theirs.is_terminal():
                break
            assert state.is_terminal == theirs.is_terminal(), where
            if state.is_terminal:
                assert state.result == theirs.returns()[1], where
                break
            moves = {
                pyspiel.chess.action_to_move(action, theirs.board()).to_lan()
                for action in theirs.legal_actions()
            }
            assert {state.action_to_string(a) for a in state.legal_actions()} == moves, where
        if seen >= count:
            return


@pytest.mark.slow
def test_the_rules_are_those_of_openspiel() -> None:
    compare_with_openspiel(3_000)


@pytest.mark.fleet
@pytest.mark.timeout(0)
def test_the_rules_are_those_of_openspiel_in_many_positions() -> None:
    compare_with_openspiel(MANY)


@pytest.mark.slow
def test_every_start_of_chess960_is_read_and_written() -> None:
    for number in range(960):
        board = chess.Board.from_chess960_pos(number)
        for fen in (board.fen(), board.fen(shredder=True)):  # KQkq and the files of the rooks
            state = State(GAME960, start=fen)
            compare(state, board, names=number % 40 == 0)


def test_self_play_and_matches_draw_the_starts_of_chess960() -> None:
    numbered = {
        chess.Board.from_chess960_pos(number).fen(shredder=True): number for number in range(960)
    }
    usual = State(GAME960).setup_text()
    starts = [random_start(GAME960, seed) or usual for seed in range(20_000)]
    assert {numbered[start] for start in starts} == set(range(960))
    assert random_start(GAME960, 5) == random_start(GAME960, 5)
    assert random_start(GAME, 5) == ""


def play_960(seed: int, games: int) -> list[GameColumns]:
    """Return games of self-play with a network without knowledge."""
    config = SearchConfig(num_simulations=2, random_opening_plies=3)
    engine = SelfPlay("chess(chess960=true,max_length=8)", 4, config, seed)
    finished: list[GameColumns] = []
    while len(finished) < games:
        rows = len(engine.select())
        engine.backup(np.zeros((rows, 1_858), np.float32), np.zeros(rows, np.float32), 1)
        finished += engine.take_finished()
    return finished[:games]


def test_games_of_chess960_are_learnt_from_their_start() -> None:
    games = play_960(3, 40)
    starts = [game.start for game in games]
    assert len(set(starts)) > 30
    assert starts == [game.start for game in play_960(3, 40)]
    assert starts != [game.start for game in play_960(4, 40)]
    for game in games:
        buffer = ReplayBuffer("chess(chess960=true,max_length=8)", 100, 10)
        add_to_buffer(buffer, game)
        played = [
            State(GAME960, game.action[:ply].tolist(), game.start)
            for ply in range(len(game.action))
        ]
        searched = {
            state.observation().tobytes()
            for state, full in zip(played, game.full_search, strict=True)
            if full
        }
        sampled = buffer.sample(64, 1, symmetry=False)[0]
        assert {row.tobytes() for row in sampled} <= searched


def lines(state: State, depth: int) -> int:
    legal = state.legal_actions()
    if depth == 1:
        return len(legal)
    total = 0
    for action in legal:
        after = state.copy()
        after.apply(action)
        total += lines(after, depth - 1)
    return total


@pytest.mark.slow
def test_known_numbers_of_lines() -> None:
    """The C++ tests count the same lines to greater depths."""
    assert [lines(State("chess"), depth) for depth in (1, 2, 3)] == [20, 400, 8902]
    assert [lines(State("chess", start=SHARP[0]), depth) for depth in (1, 2)] == [48, 2039]


@given(st.lists(st.integers(0, 2**16), max_size=120), st.sampled_from([START, *SHARP]))
def test_a_position_is_the_same_when_it_is_written_and_read(choices: list[int], fen: str) -> None:
    state = State("chess(history=8)", start=fen)
    for choice in choices:
        if state.is_terminal:
            break
        legal = state.legal_actions()
        state.apply(legal[choice % len(legal)])
    again = State("chess(history=8)", start=state.setup_text())
    assert again.setup_text() == state.setup_text()
    assert str(again) == str(state)
    if state.ending not in ("repetition", "maximum length"):
        assert again.legal_actions() == state.legal_actions()
        assert again.ending == state.ending


@given(st.text() | st.text(alphabet="rnbqkpRNBQKP12345678/ wKQkqabceh-3601", max_size=90))
@example(f"{START}é")
@example(START.replace("w", "é" * 80))
@example(START.replace("K", "♔"))
def test_any_text_is_a_position_or_refused(text: str) -> None:
    try:
        state = State("chess", start=text)
    except ValueError as error:
        assert str(error).startswith("FEN '")  # noqa: PT017
    else:
        assert State("chess", start=state.setup_text()).hash == state.hash


@given(st.text(max_size=8) | st.from_regex(r"[KQRBN]?[a-h]?[1-8]?x?[a-h][1-8](=[QRBN])?[+#]?"))
def test_any_word_is_a_move_as_python_chess_reads_it_or_refused(word: str) -> None:
    state, board = State("chess", start=SHARP[1]), chess.Board(SHARP[1])
    try:
        theirs: chess.Move | None = board.parse_san(word)
    except ValueError:
        theirs = None
    try:
        ours: int | None = state.string_to_action(word)
    except ValueError:
        ours = None
    if ours not in state.legal_actions():
        ours = None
    if theirs is not None:
        assert ours is not None
        assert state.action_to_string(ours) == theirs.uci()


REFUSED = {
    f"{START} 1": "it has 7 fields",
    "chess": "it has 1 field;",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0": "it has 5 fields",
    "rnbqkbnr/pppppppp/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1": "it has 7 ranks instead of 8",
    "rnbqkbnr/pppppppp/8/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1": "more than 8 ranks",
    "rnbqkbnr/pppppppp/8/8/7/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1": "rank 4 has only 7 squares",
    "rnbqkbnr/pppppppp/8/8/81/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1": "rank 4 has more than 8 squares",
    "rnbqkbnr/pppppppx/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1": "'x' is not a piece",
    "rnbqqbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQ - 0 1": "Black has 0 kings",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBKKBNR w kq - 0 1": "White has 2 kings",
    "rnbqkbnr/pppppppp/p7/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1": "Black has 9 pawns",
    "rnbqkbnr/pppppppp/8/8/8/7Q/PPPPPPPP/RNBQKBNR w KQkq - 0 1": "more pieces than promotions",
    "rnbqkbnP/ppppppp1/8/8/8/8/PPPPPPP1/RNBQKBNR w KQq - 0 1": "a pawn is on h8",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR x KQkq - 0 1": "must be w or b, not 'x'",
    "4k3/8/8/8/8/8/8/4K2R w KQ - 0 1": "castling right 'Q': White has no rook there",
    "4k3/8/8/8/8/8/8/5K1R w K - 0 1": "castling right 'K': White's king is on f1",
    "r3k2r/8/8/8/8/8/8/4K3 w kk - 0 1": "castling right 'k' is given twice",
    "4k3/8/8/8/8/8/8/4K2R w H - 0 1": "castling rights must be - or letters of KQkq, not 'H'",
    "4k3/8/8/8/4P3/8/8/4K3 b - e9 0 1": "must be - or a square, not 'e9'",
    "4k3/8/8/8/4P3/8/8/4K3 b - e4 0 1": "White's pawns do not cross it",
    "4k3/8/8/8/4P3/8/8/4K3 w - e3 0 1": "Black's pawns do not cross it",
    "4k3/8/8/8/3P4/8/8/4K3 b - e3 0 1": "no pawn of White is on e4",
    "4k3/8/8/8/4P3/4n3/8/4K3 b - e3 0 1": "a piece is in the pawn's way",
    "4k3/8/8/8/4P3/8/4P3/4K3 b - e3 0 1": "a piece is in the pawn's way",
    "4k3/8/8/8/8/8/8/4K3 w - - 101 1": "the half-move clock must be 0 to 100, not '101'",
    "4k3/8/8/8/8/8/8/4K3 w - - -1 1": "the half-move clock must be 0 to 100, not '-1'",
    "4k3/8/8/8/8/8/8/4K3 w - - 0 ten": "the move number must be 0 to 9999, not 'ten'",
    "4k2R/8/8/8/8/8/8/4K3 w - - 0 1": "Black is in check, but it is not their move",
}


@pytest.mark.parametrize("fen", REFUSED)
def test_a_position_that_cannot_arise_is_refused(fen: str) -> None:
    with pytest.raises(ValueError, match="FEN ") as caught:
        State("chess", start=fen)
    assert REFUSED[fen] in str(caught.value)


@pytest.mark.parametrize(
    ("fen", "reason"),
    [
        ("4k3/8/8/8/8/8/8/K6R w H - 0 1", "castling right 'H': White's king is on a1"),
        ("4k3/8/8/8/8/8/8/1K5R w A - 0 1", "castling right 'A': White has no rook there"),
        ("4k3/8/8/8/8/8/8/1K6 w K - 0 1", "castling right 'K': White has no rook there"),
        ("4k3/8/8/8/8/8/8/1K5R w X - 0 1", "letters of HAha and other files"),
    ],
)
def test_a_position_that_cannot_arise_in_chess960_is_refused(fen: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        State(GAME960, start=fen)


def test_a_name_sets_the_rules() -> None:
    assert games.spec("chess").observation_shape == (26, 8, 8)
    assert games.spec("chess(history=8)").observation_shape == (117, 8, 8)
    assert games.spec("chess").num_actions == 1858
    state = State("chess(max_length=2)", [])
    for word in ("e4", "e5"):
        state.apply(state.string_to_action(word))
    assert (state.ending, state.result) == ("maximum length", 0)
    for name, words in {
        "chess(history=2)": "history must be 1 or 8, not 2",
        "chess(chess960=yes)": "chess960 must be true or false",
        "chess(max_length=0)": "it must be from 1 to 512",
        "chess(size=8)": "unknown rule 'size'; known: history, chess960, max_length",
    }.items():
        with pytest.raises(ConfigError, match=words):
            games.spec(name)


def test_other_games_have_one_notation() -> None:
    state = State("othello")
    assert state.action_to_san(19) == "d3"
    assert state.ending == ""
    with pytest.raises(ValueError, match="action 0 is illegal"):
        state.action_to_san(0)


def test_actions_are_numbered_from_the_movers_side() -> None:
    """The page about games gives the order: queen steps or knight moves, then promotions."""
    state, steps = State("chess"), list[str]()
    empty = chess.Board.empty()
    for row, column in np.ndindex(8, 8):
        square = chess.square(column, 7 - row)
        reached = set[int]()
        for piece in (chess.QUEEN, chess.KNIGHT):
            empty.set_piece_at(square, chess.Piece(piece, chess.WHITE))
            reached |= set(empty.attacks(square))
        empty.remove_piece_at(square)
        ordered = sorted(reached, key=lambda each: (-chess.square_rank(each), each))
        steps += [chess.Move(square, to).uci() for to in ordered]
    assert len(steps) == 1792
    promotions = [
        f"{chess.FILE_NAMES[start]}7{chess.FILE_NAMES[to]}8{piece}"
        for start in range(8)
        for to in range(8)
        if abs(start - to) < 2
        for piece in "nbr"
    ]
    assert [state.action_to_string(action) for action in range(1858)] == steps + promotions
    white = State("chess", start="4k3/P7/8/8/8/8/8/4K3 w - - 0 1")
    black = State("chess", start="4k3/8/8/8/8/8/p7/4K3 b - - 0 1")
    for word, mirrored in (("a7a8q", "a2a1q"), ("a7a8n", "a2a1n"), ("e1e2", "e8e7")):
        assert white.string_to_action(word) == black.string_to_action(mirrored)
    assert white.string_to_action("A7A8Q") == steps.index("a7a8") == white.string_to_action("a8=Q")


class Told:
    """The planes that the page about games describes, computed by python-chess."""

    def __init__(self, boards: list[chess.Board], repeated: list[bool]) -> None:
        self.boards = boards
        """The present position, then the earlier ones."""
        self.repeated = repeated
        self.turn = boards[0].turn

    def grid(self, squares: Any) -> Any:
        found = np.zeros((8, 8), bool)
        for square in squares:
            found[7 - chess.square_rank(square), chess.square_file(square)] = True
        return found if self.turn == chess.WHITE else found[::-1]

    def planes(self, history: int) -> Iterator[Any]:
        for age in range(history):
            board = self.boards[age] if age < len(self.boards) else None
            for colour in (self.turn, not self.turn):
                for kind in range(1, 7):
                    yield self.grid(board.pieces(kind, colour) if board else ())
            yield np.full((8, 8), board is not None and self.repeated[age])
        board = self.boards[0]
        for colour in (self.turn, not self.turn):
            yield np.full((8, 8), board.has_kingside_castling_rights(colour))
            yield np.full((8, 8), board.has_queenside_castling_rights(colour))
        takes = board.ep_square is not None and board.has_legal_en_passant()
        yield self.grid([board.ep_square] if takes else [])
        yield np.full((8, 8), self.turn == chess.BLACK)
        for plies in (10, 20, 40, 60, 80, 90, 96):
            yield np.full((8, 8), board.halfmove_clock >= plies)


@dataclass
class Past:
    boards: list[chess.Board] = field(default_factory=list)
    repeated: list[bool] = field(default_factory=list)


@pytest.mark.slow
@pytest.mark.parametrize("history", [1, 8])
def test_the_planes_are_as_the_page_says(history: int) -> None:
    generator = random.Random(SEED)
    for fen in (START, SHARP[0], "4k3/8/8/8/8/8/4P3/R3K3 w Q - 85 80"):
        state = State(f"chess(history={history})", start=fen)
        board, past = chess.Board(fen), Past()
        while not state.is_terminal and state.ply < 80:
            past.boards.insert(0, board.copy())
            past.repeated.insert(0, board.is_repetition(2))
            seen = np.unpackbits(state.observation()).reshape(-1, 8, 8)
            expected = list(Told(past.boards, past.repeated).planes(history))
            assert len(seen) == len(expected)
            for number, plane in enumerate(expected):
                np.testing.assert_array_equal(seen[number], plane, f"{board.fen()} plane {number}")
            # Move back and forth half of the time, so that positions repeat.
            move = sharp(board, generator)
            if len(board.move_stack) > 1 and generator.random() < 0.5:
                last = board.move_stack[-2]
                back = chess.Move(last.to_square, last.from_square)
                move = back if back in board.legal_moves else move
            state.apply(state.string_to_action(move.uci()))
            board.push(move)


def test_the_page_names_every_plane() -> None:
    sys.path.insert(0, str(REFERENCE))
    try:
        page = runpy.run_path(str(REFERENCE / "games_page.py"))
    finally:
        sys.path.remove(str(REFERENCE))
    [planes] = [game.planes for game in page["GAMES"] if game.name == "chess"]
    assert len(planes) == len(set(planes)) == 117
