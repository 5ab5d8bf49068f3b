from __future__ import annotations

import json
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.random_records import random_record
from zerofleet import games
from zerofleet.database import Submission
from zerofleet.database.finished_games import encode_submissions
from zerofleet.errors import ConfigError, IllegalActionError
from zerofleet.games import State, format_actions, parse_actions
from zerofleet.games.notation import (
    move_numbers,
    numbered_moves,
    player_letters,
    player_names,
    whole_number,
    why_illegal,
)
from zerofleet.games.python_game import Game


@pytest.mark.parametrize(
    ("game", "line", "word", "reason"),
    [
        ("tic_tac_toe", "c1", "c1", "c1 is taken"),
        ("mnk(m=4,n=4,k=3)", "b2", "b2", "b2 is taken"),
        ("gomoku", "a1", "a1", "a1 is taken"),
        ("go(size=5)", "C3", "c3", "c3 is taken"),
        ("go(size=2,suicide=false)", "A1 pass B2", "A2", "A2 would repeat a position, or take its"),
        ("othello", "", "d4", "d4 is taken"),
        ("othello", "", "a1", "a1 turns no disc"),
        ("othello", "", "pass", "there are discs to turn: no pass"),
        ("connect_four", "4 4 4 4 4 4", "4", "column 4 is full"),
    ],
)
def test_an_illegal_action_is_refused_in_a_persons_own_words(
    game: str, line: str, word: str, reason: str
) -> None:
    state = State(game, parse_actions(game, line))
    action = state.string_to_action(word)
    assert action not in state.legal_actions()
    assert why_illegal(state, action, word).startswith(reason)


def test_a_line_is_read_in_the_games_notation() -> None:
    assert games.parse_actions("tic_tac_toe", "b2 a1  c3\n") == [4, 0, 8]
    assert games.parse_actions("connect_four", "4 4 1") == [3, 3, 0]
    assert games.parse_actions("connect_four", "") == []


def test_numbers_do_where_the_notation_is_none() -> None:
    assert games.parse_actions("tic_tac_toe", "4 a1 8") == [4, 0, 8]


@pytest.mark.parametrize(
    ("game", "text", "message"),
    [
        ("tic_tac_toe", "b2 b2", "ply 1: 'b2': action 4 at ply 1 is illegal"),
        ("tic_tac_toe", "b2 9", "ply 1: '9': the actions are 0 to 8"),
        ("tic_tac_toe", "b2 d4", "ply 1: 'd4'"),
        ("connect_four", "4 0", "ply 1: '0'"),
        ("connect_four", "4 8", "ply 1: '8'"),
        ("connect_four", "1 2 1 2 1 2 1 3", "ply 7: '3': action 2 at ply 7 is illegal"),
        ("connect_four", "4 -1", "ply 1: '-1'"),
        ("connect_four", "4 \udcff", r"ply 1: '\\udcff'"),
    ],
)
def test_what_breaks_the_rules_is_named(game: str, text: str, message: str) -> None:
    with pytest.raises(IllegalActionError, match=message):
        games.parse_actions(game, text)


def test_unknown_game() -> None:
    with pytest.raises(ConfigError, match="tic_tac_toe"):
        games.parse_actions("tictactoe", "b2")
    with pytest.raises(ConfigError, match="tic_tac_toe"):
        games.format_actions("tictactoe", [4])


GAMES = [
    *games.names(),
    "go(size=5)",
    "openspiel:breakthrough",
    "openspiel:chess",
    "python:examples.domineering:Domineering",
]


@given(st.sampled_from(GAMES), st.lists(st.integers(0, 2**16), max_size=50))
@settings(deadline=None)
def test_what_is_written_can_be_read(game: str, choices: list[int]) -> None:
    state, actions = games.State(game), list[int]()
    for choice in choices:
        if state.is_terminal:
            break
        legal = state.legal_actions()
        actions.append(legal[choice % len(legal)])
        state.apply(actions[-1])
    assert games.parse_actions(game, games.format_actions(game, actions)) == actions


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(0, 3))
def test_a_whole_number_is_read_as_a_whole(number: int, most: int, zeros: int) -> None:
    text = "0" * zeros + str(number)
    assert whole_number(text, most) == (number if number <= most else None)


@given(st.text(max_size=12))
def test_what_is_no_whole_number_is_none(text: str) -> None:
    if not (text and set(text) <= set("0123456789")):
        assert whole_number(text, 10**20) is None


@pytest.mark.parametrize("text", ["9" * 5000, "0" * 5000 + "9" * 20, "٣", "1_0", "+1", "1 ", ""])
def test_numbers_that_python_or_postgres_would_choke_on(text: str) -> None:
    assert whole_number(text, 2**31 - 1) is None


@pytest.mark.parametrize(
    ("game", "lower"),
    [
        ("tic_tac_toe", "b2 a1 c3"),
        ("mnk", "b2 a1"),
        ("gomoku", "h8 o15"),
        ("othello", "d3 c3"),
        ("go(size=5)", "c3 pass d4"),
        ("openspiel:hex(board_size=5)", "b2 c3"),
        ("openspiel:breakthrough", "a7a6 b2b3"),
        ("openspiel:tic_tac_toe", "x(1,1) o(0,0)"),
    ],
)
def test_capitals_mean_nothing_where_the_game_has_no_use_for_them(game: str, lower: str) -> None:
    assert games.parse_actions(game, lower.upper()) == games.parse_actions(game, lower)


def test_capitals_are_kept_apart_where_they_mean_something() -> None:
    """In chess a small b is a pawn, and a capital B is a bishop."""
    line = "e4 e5 Bc4 Nc6"
    assert len(games.parse_actions("openspiel:chess", line)) == 4
    with pytest.raises(IllegalActionError, match="ply 2: 'bc4'"):
        games.parse_actions("openspiel:chess", "e4 e5 bc4")


class Shouts(Game):
    """Words in capitals; two of them differ in nothing else."""

    num_actions = 3
    observation_shape = (1, 1, 3)
    max_length = 3

    @classmethod
    def action_to_string(cls, action: int) -> str:
        return ("LEFT", "Up", "UP")[action]


def test_a_class_reads_capitals_and_small_letters_where_that_is_clear() -> None:
    assert [Shouts.string_to_action(text) for text in ("left", "Left", "LEFT")] == [0, 0, 0]
    assert [Shouts.string_to_action(text) for text in ("Up", "UP", "up")] == [1, 2, None]


@given(
    st.sampled_from(GAMES),
    st.text(max_size=8) | st.sampled_from(["9" * 5000, "b2\0", "0" * 9, "b2\udcff"]),
)
@settings(deadline=None)
def test_any_line_is_read_or_refused_in_a_short_message(game: str, text: str) -> None:
    said = ""
    try:
        games.parse_actions(game, text)
    except IllegalActionError as error:
        said = str(error)
    assert len(said) < 700


def test_chess_is_written_as_people_write_it_and_read_in_either_notation() -> None:
    uci = "e2e4 d7d5 e4d5 d8d5 b1c3 d5e5 g1e2 b8c6 d2d4 e5e4 c3e4"
    actions = parse_actions("chess", uci)
    san = "e4 d5 exd5 Qxd5 Nc3 Qe5+ Nge2 Nc6 d4 Qe4 Nxe4"
    assert format_actions("chess", actions) == san
    assert parse_actions("chess", san) == parse_actions("chess", uci.upper()) == actions


class Named(Game):
    """A game whose players have names."""

    num_actions, observation_shape, max_length = 1, (1, 2, 2), 1
    player_names = ("Left", "Right")
    to_play, is_terminal, result = 0, False, 0

    def legal_actions(self) -> list[int]:
        return [0]

    def apply(self, action: int) -> None:
        self.is_terminal = True

    def copy(self) -> Named:
        twin = type(self)()
        twin.is_terminal = self.is_terminal
        return twin

    def observation(self) -> np.ndarray:
        return np.zeros((1, 2, 2), np.bool_)


class NamedTwice(Named):
    player_names = ("Left", "Left")


def test_players_have_the_names_that_people_give_them() -> None:
    unnamed = ("the first player", "the second player")
    for game, names in {
        "chess(history=1)": ("White", "Black"),
        "openspiel:chess": ("White", "Black"),
        "go(size=5)": ("Black", "White"),
        "othello": ("Black", "White"),
        "connect_four": ("Red", "Yellow"),
        "tic_tac_toe": ("X", "O"),
        "openspiel:hex(board_size=5)": unnamed,
        f"python:{__name__}:Named": ("Left", "Right"),
    }.items():
        assert player_names(game) == names
    assert all(player_names(game) != unnamed for game in games.names())
    with pytest.raises(ConfigError, match="player_names must be two different names"):
        games.spec(f"python:{__name__}:NamedTwice")


def test_the_letters_of_the_pieces_are_those_of_the_picture() -> None:
    for game in ("connect_four", "go(size=5)", "gomoku", "othello"):
        state = State(game)
        first, second = player_letters(game) or ("", "")
        for _ in range(2):
            state.apply(state.legal_actions()[0])
        assert {first, second} <= set(str(state).split())
        assert first in str(State(game, [State(game).legal_actions()[0]])).split()
    assert player_letters("chess") is None


@pytest.mark.parametrize("game", ["chess", "chess(chess960=true)", "go(size=5)"])
def test_the_moves_of_a_stored_game_are_those_of_the_game(game: str) -> None:
    for seed in range(5):
        record = random_record(seed, game)
        [stored] = json.loads(encode_submissions([Submission(record)]))
        assert parse_actions(game, stored["moves"]) == record.columns.action.tolist()
        assert format_actions(game, record.columns.action.tolist()) == stored["moves"]


AFTER_E4 = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"
LATE = "8/8/8/4k3/8/8/8/KQ6 b - - 3 57"


@pytest.mark.parametrize(
    ("game", "start", "words", "shown"),
    [
        ("connect_four", "", ["4", "3", "4"], "1. 4 2. 3 3. 4"),
        ("othello", "", [], ""),
        ("chess", "", ["e4", "e5", "Nf3"], "1. e4 e5 2. Nf3"),
        ("chess(history=8)", AFTER_E4, ["e5", "Nf3", "Nc6"], "1... e5 2. Nf3 Nc6"),
        ("chess", LATE, ["Kd4", "Qb4+"], "57... Kd4 58. Qb4+"),
        ("openspiel:chess", "", ["e4", "e5"], "1. e4 2. e5"),
    ],
)
def test_moves_have_numbers(game: str, start: str, words: list[str], shown: str) -> None:
    assert numbered_moves(game, words, start).replace("\N{NO-BREAK SPACE}", " ") == shown


def test_a_single_move_has_the_number_of_its_player() -> None:
    assert list(islice(move_numbers("chess"), 3)) == ["1.", "1...", "2."]
    assert list(islice(move_numbers("tic_tac_toe"), 3)) == ["1.", "2.", "3."]
    assert list(islice(move_numbers("chess", LATE), 2))[1] == "58."
