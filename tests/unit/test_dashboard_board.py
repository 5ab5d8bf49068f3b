"""A board agrees with the rules, in every game."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from types import ModuleType
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from examples.domineering import Domineering
from zerofleet.errors import ConfigError
from zerofleet.games import Game, State, names, parse_actions
from zerofleet.games.board_svg import board_svg
from zerofleet.games.game_board import BoardAction, BoardPosition, GameBoard, Piece, read_grid
from zerofleet.services.dashboard.board import Board, require_known
from zerofleet.services.dashboard.toolkit import Client, ui

# Style of the board, by game.
BOARDS = {
    **dict.fromkeys(names(), "squares"),
    "chess": "chequered",
    "connect_four": "frame",
    "go": "lines",
    "go(size=5)": "lines",
    "gomoku": "lines",
    "othello": "felt",
    "mnk(m=5,n=4,k=4)": "squares",
    "openspiel:breakthrough": "chequered",
    "openspiel:checkers": "chequered",
    "openspiel:chess": "chequered",
    "openspiel:hex(board_size=5)": "hexagons",
    "openspiel:nim": "text",
    "python:examples.domineering:Domineering": "squares",
}
board_of = cache(GameBoard)


@settings(max_examples=25)
@given(game=st.sampled_from(sorted(BOARDS)), seed=st.integers(0, 1_000), plies=st.integers(0, 40))
def test_every_legal_action_has_a_place_and_pieces_are_those_of_the_rules(
    game: str, seed: int, plies: int
) -> None:
    board, draw, state = board_of(game), random.Random(seed), State(game)
    actions: list[int] = []
    while len(actions) < plies and not state.is_terminal:
        actions.append(draw.choice(state.legal_actions()))
        state.apply(actions[-1])
    position = board.position(actions)
    shape = board.shape
    assert shape.style == BOARDS[game]
    assert [each.action for each in position.actions] == state.legal_actions()
    assert (position.to_play, position.ply) == (state.to_play, len(actions))
    if shape.style == "text":
        assert position.text == str(state)
        return
    if "openspiel" not in game:  # whose texts write empty points in other ways
        rows = [line.split() for line in str(state).splitlines()]
        marks = [mark for row in rows if row != [*shape.column_names] for mark in row]
        assert [piece.glyph for piece in position.pieces] == [
            mark for mark in marks if mark != "." and not mark.isdecimal()
        ]
    for each in position.actions:
        after = board.position([*actions, each.action])
        held = {piece.point: piece for piece in after.pieces}
        if each.points and (each.source is not None or shape.pieces == "marks"):
            assert held[each.points[0]].owner == state.to_play
        assert all(0 <= point < shape.rows * shape.columns for point in each.points)
        assert each.source is None or each.source not in held
        assert after.last == each
        assert each.points or each.text == "pass"
        if draw.random() < 0.9:
            break  # one is enough most of the time


def test_points_are_where_the_rules_put_the_piece() -> None:
    cases = {
        "connect_four": ("4 4", "4", (24,), None),
        "go(size=5)": ("", "pass", (), None),
        "othello": ("d3", "c3", (18,), None),
        "openspiel:chess": ("e4 e5", "Nf3", (45,), 62),
        "chess": ("e4 e5", "Nf3", (45,), 62),
        "openspiel:breakthrough": ("a7a6", "a2a3", (40,), 48),
        "python:examples.domineering:Domineering": ("b3b4", "c1d1", (2, 3), None),
    }
    for game, (line, word, points, source) in cases.items():
        position = board_of(game).position(parse_actions(game, line))
        [found] = [each for each in position.actions if each.text == word]
        assert found == BoardAction(found.action, word, points, source), game


@pytest.mark.parametrize("game", ["chess", "openspiel:chess"])
def test_a_castling_king_is_the_piece_that_moves_and_pieces_have_owners(game: str) -> None:
    assert board_of(game).shape.pieces == "chess"
    position = board_of(game).position(parse_actions(game, "e4 e5 Nf3 Nf6 Bc4 Bc5"))
    [castling] = [each for each in position.actions if each.text == "O-O"]
    assert (castling.points, castling.source) == ((62,), 60)
    assert all(piece.owner == (not piece.glyph.isupper()) for piece in position.pieces)


def test_the_board_of_a_class_shows_whose_pieces_are_whose() -> None:
    game = "python:examples.domineering:Domineering"
    position = board_of(game).position(parse_actions(game, "b3b4 c1d1"))
    owners = {piece.point: piece.owner for piece in position.pieces}
    assert owners == {13: 0, 19: 0, 2: 1, 3: 1}


class PieRule(Game):
    """Stones on 2 x 2 points; the second player may take over the first stone instead."""

    num_actions = 5
    observation_shape = (2, 2, 2)
    max_length = 5

    def __init__(self) -> None:
        self.points = [".", ".", ".", "."]
        self.to_play = self.result = 0
        self.is_terminal = False

    def legal_actions(self) -> list[int]:
        free = [point for point in range(4) if self.points[point] == "."]
        return [*free, 4] if len(free) == 3 and self.to_play else free

    def apply(self, action: int) -> None:
        if action == 4:
            self.points = ["b" if mark == "r" else mark for mark in self.points]
        else:
            self.points[action] = "rb"[self.to_play]
        self.to_play = 1 - self.to_play
        self.is_terminal = "." not in self.points

    def copy(self) -> PieRule:
        twin = PieRule()
        twin.points, twin.to_play = list(self.points), self.to_play
        twin.is_terminal = self.is_terminal
        return twin

    def observation(self) -> NDArray[np.bool_]:
        red = np.array([mark == "r" for mark in self.points]).reshape(2, 2)
        return np.stack([red, np.full((2, 2), self.to_play == 1)])

    @classmethod
    def action_to_string(cls, action: int) -> str:
        return "swap" if action == 4 else ("a2", "b2", "a1", "b1")[action]

    def __str__(self) -> str:
        return "{} {}\n{} {}".format(*self.points)


def test_an_action_without_a_point_is_a_button(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("games_with_swap")
    monkeypatch.setattr(module, "PieRule", PieRule, raising=False)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    game = "python:games_with_swap:PieRule"
    position = board_of(game).position(parse_actions(game, "b2"))
    assert {each.text: each.points for each in position.actions} == {
        "a2": (0,),
        "a1": (2,),
        "b1": (3,),
        "swap": (),
    }
    swapped = board_of(game).position(parse_actions(game, "b2 swap"))
    assert [(piece.point, piece.glyph, piece.owner) for piece in swapped.pieces] == [(1, "b", 1)]


def test_white_has_the_light_pieces_also_if_white_moves_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class WhiteBegins(Domineering):
        player_names = ("White", "Black")

    module = ModuleType("games_of_white")
    monkeypatch.setattr(module, "WhiteBegins", WhiteBegins, raising=False)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    light_first = {
        "python:games_of_white:WhiteBegins": True,
        "python:examples.domineering:Domineering": False,
        "chess": True,
        "openspiel:chess": True,
        "openspiel:breakthrough": False,
        "go(size=5)": False,
    }
    for game, is_light in light_first.items():
        board = board_of(game)
        assert board.shape.white_first == is_light, game
        first = replace(board.start, pieces=(Piece(0, 0, "q"),), picture="")
        colours = ('"#fdfdfb"', '"#fbfbf8"') if is_light else ('"#22272b"', '"#23272a"')
        assert any(f"fill={colour}" in board_svg(board, first) for colour in colours), game


@pytest.mark.parametrize("named", [False, True])
def test_shifted_rows_are_hexagons_with_and_without_names(named: bool) -> None:
    rows = [f"{row + 1} " * named + " " * row + ". r b" for row in range(3)]
    grid = read_grid("\n".join(["  a b c"] * named + rows), 3, 3)
    assert grid is not None
    assert (grid.indent, grid.cells) == (1, (".", "r", "b") * 3)
    assert grid.row_names == (("1", "2", "3") if named else ())


def test_rows_with_names_of_two_widths_are_not_shifted() -> None:
    grid = read_grid("\n".join(f"{row} . x" for row in range(12, 7, -1)), 5, 2)
    assert grid is not None
    assert grid.indent == 0


def test_a_variation_is_played_on_from_the_position() -> None:
    steps = board_of("connect_four").variation([3, 3], [3, 3, 0])
    assert [step.action.points for step in steps] == [(24,), (17,), (35,)]
    assert [(step.owner, step.glyph) for step in steps] == [(0, "x"), (1, "o"), (0, "x")]


def test_the_ko_is_marked_while_it_may_not_be_retaken() -> None:
    game = "go(size=5)"
    line = parse_actions(game, "B3 C3 C4 D4 C2 D2 A5 E3 D3")
    position = board_of(game).position(line)
    assert position.ko == parse_actions(game, "C3")[0]
    assert board_of(game).position([*line, *[25]]).ko is None


@pytest.mark.parametrize(
    ("game", "line", "rows"),
    [
        ("tic_tac_toe", "a1 a2 b1 b2", []),  # goes on
        ("tic_tac_toe", "a1 a2 b1 b2 c1", [(0, 1, 2)]),
        ("tic_tac_toe", "a1 a2 c3 b2 b3 c2", [(3, 4, 5)]),  # the second player's
        ("connect_four", "1 2 2 3 3 4 3 4 4 6 4", [(17, 23, 29, 35)]),
        ("connect_four", "1 1 2 2 3 3 5 5 6 6 7 7 4", [tuple(range(35, 42))]),  # longer
        ("mnk(m=5,n=5,k=4)", "a1 a2 b1 b2 c1 c2 d1", [(20, 21, 22, 23)]),
        ("mnk(m=5, n=5, k=3)", "a1 a5 b1 b5 e3 c4 d2 d5 c1", [(20, 21, 22), (14, 18, 22)]),
        ("gomoku", "a1 a2 b1 b2 c1 c2 d1 d2 e1", [(210, 211, 212, 213, 214)]),
    ],
)
def test_the_rows_that_won_are_known(game: str, line: str, rows: list[tuple[int, ...]]) -> None:
    assert list(board_of(game).position(parse_actions(game, line)).won_by) == rows


@pytest.mark.parametrize(
    ("game", "has_rows"),
    [
        ("openspiel:tic_tac_toe", True),
        ("openspiel:connect_four", True),
        ("connect_four", True),
        ("othello", False),
        ("go(size=3)", False),
        ("python:examples.domineering:Domineering", False),
    ],
)
def test_a_row_is_marked_whenever_a_game_of_rows_is_won(game: str, *, has_rows: bool) -> None:
    draw = random.Random(1)
    for _ in range(10):
        state, actions = State(game), list[int]()
        while not state.is_terminal:
            actions.append(draw.choice(state.legal_actions()))
            state.apply(actions[-1])
        won_by = board_of(game).position(actions).won_by
        assert bool(won_by) == (has_rows and state.result != 0)


@pytest.mark.parametrize(
    ("text", "rows", "columns"),
    [("", 3, 3), ("...\n...", 3, 3), ("x o\n. .\n\nx o\n. .", 2, 2), ("4 4 4", 1, 1)],
)
def test_a_text_that_is_no_grid_or_several_is_none(text: str, rows: int, columns: int) -> None:
    assert read_grid(text, rows, columns) is None


def test_a_class_that_only_the_database_names_is_not_imported() -> None:
    require_known("python:mine:Game", "python:mine:Game")
    with pytest.raises(
        ConfigError, match="'python:hostile:Game' is a Python class and belongs to another"
    ):
        require_known("python:hostile:Game", "python:mine:Game")


@pytest.mark.parametrize(
    "game",
    [
        "openspiel:efg_game(filename=/etc/passwd)",
        "openspiel:connect_four(rows=1000,columns=1000)",
        "openspiel:misere(game=hex)",
        "openspiel:" + "x" * 100_000,
        "openspiel:chess\n",
        "other:chess",
    ],
)
def test_of_another_run_only_plain_games_are_shown(game: str) -> None:
    with pytest.raises(ConfigError, match="belongs to another run") as caught:
        require_known(game, "openspiel:chess")
    assert len(str(caught.value)) < 300
    require_known(game, game)
    for plain in ("openspiel:chess", "openspiel:tic_tac_toe()", "go(size=9,komi=7)"):
        require_known(plain, "connect_four")


async def test_positions_are_sought_in_a_thread_and_the_newest_is_shown_last() -> None:
    begun, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    class SlowBoard(GameBoard):
        """Board of a game whose rules take long."""

        asked: ClassVar[list[int]] = []

        def position(self, actions: Sequence[int]) -> BoardPosition:
            if actions:
                self.asked.append(len(actions))
                loop.call_soon_threadsafe(begun.set)
                assert go.wait(60)
            return super().position(actions)

    with Client(ui.page("/")):
        board = Board(SlowBoard("tic_tac_toe"))
        shown: list[int] = []
        board.seek([0], then=lambda: shown.append(1))
        await asyncio.wait_for(begun.wait(), 60)  # the loop is free
        for plies in (2, 3):
            board.seek(range(plies), then=partial(shown.append, plies))
        go.set()
        await board.sought()
    assert (shown, board.position.ply, SlowBoard.asked) == ([3], 3, [1, 3])
