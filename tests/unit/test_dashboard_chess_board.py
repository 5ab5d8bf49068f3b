"""Captured pieces and checks agree with python-chess in random games."""

from __future__ import annotations

import random
from collections import Counter

import chess
import pytest

from zerofleet.games import State
from zerofleet.games.chess_board import captured_pieces, checked_king
from zerofleet.games.game_board import GameBoard

NAMES = ("White", "Black")
VALUES = {"p": 1, "n": 3, "b": 3, "r": 5, "q": 9}


def cells(board: chess.Board) -> list[str]:
    pieces = [board.piece_at(chess.square(point % 8, 7 - point // 8)) for point in range(64)]
    return [piece.symbol() if piece else "." for piece in pieces]


@pytest.mark.parametrize("game", ["chess", "openspiel:chess"])
@pytest.mark.parametrize("seed", range(4))
def test_random_games(game: str, seed: int) -> None:
    draw, board, state = random.Random(seed), chess.Board(), State(game)
    actions: list[int] = []
    taken: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    checks = 0
    while not state.is_terminal and not board.is_game_over() and len(actions) < 150:
        action = draw.choice(state.legal_actions())
        move = board.parse_san(state.action_to_san(action))
        mover = state.to_play
        if board.is_capture(move):
            piece = None if board.is_en_passant(move) else board.piece_at(move.to_square)
            taken[mover][piece.symbol() if piece else "Pp"[1 - mover]] += 1
        board.push(move)
        state.apply(action)
        actions.append(action)
        king = checked_king(cells(board), state.to_play)
        square = board.king(board.turn)
        assert square is not None
        expected = (7 - square // 8) * 8 + square % 8
        assert king == (expected if board.is_check() else None)
        checks += board.is_check()
    assert checks
    captured = captured_pieces(game, actions, "", NAMES)
    lead = sum(
        VALUES.get(piece.symbol().lower(), 0) * (1 if piece.color else -1)
        for piece in board.piece_map().values()
    )
    for player, each in enumerate(captured):
        assert Counter(each.glyphs) == taken[player]
        assert each.lead == max(0, lead if player == 0 else -lead)


def test_a_board_shows_both() -> None:
    start = "7k/P7/8/8/8/8/8/K6r w - - 0 1"
    board = GameBoard("chess").starting_at(start)
    assert (board.start.check, [each.lead for each in board.start.captured]) == (56, [0, 4])
    assert board.start.setup_text == start
    line = [State("chess", [], start).string_to_action("Kb2")]
    assert board.position(line).check is None
    queen = State("chess", line, start)
    queen.apply(queen.string_to_action("Kg7"))
    line += [queen.string_to_action("a8=Q")]
    line.insert(1, State("chess", line[:1], start).string_to_action("Kg7"))
    ended = board.position(line)
    assert [each.glyphs for each in ended.captured] == [(), ()]  # a promoted pawn is not captured
    assert ended.captured[0].words == "Captured by White: none; 4 ahead"
    assert GameBoard("connect_four").start.captured == ()
