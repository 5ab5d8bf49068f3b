"""SGF out and in: random games come back, strangers and hostile files are refused."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sgfmill import sgf as sgfmill_sgf
from sgfmill import sgf_moves
from zerofleet_core import State

from zerofleet.errors import ConfigError, InvalidRequestError
from zerofleet.games import sgf
from zerofleet.games.go_board import GoBoard, go_score
from zerofleet.games.sgf_text import MAX_CHARACTERS

GO = "go(size=5,komi=7.5,suicide=false)"
GAMES = [
    "go(size=2,komi=0.5,suicide=false)",
    GO,
    "go(size=5,komi=-3,suicide=true)",
    "go(size=19,komi=0,suicide=true)",
    "othello",
]


def random_actions(game: str, seed: int, plies: int) -> list[int]:
    """Legal actions; passes are rare, so that games last."""
    chance = random.Random(seed)
    state, actions = State(game), []
    while not state.is_terminal and len(actions) < plies:
        legal = state.legal_actions()
        actions.append(
            chance.choice(legal[:-1] if len(legal) > 1 and chance.random() < 0.9 else legal)
        )
        state.apply(actions[-1])
    return actions


@given(
    game=st.sampled_from(GAMES),
    seed=st.integers(0, 2**32),
    plies=st.integers(0, 80),
    comment=st.text(max_size=40),
    black=st.text(max_size=10),
)
def test_a_written_game_is_read_back(
    game: str, seed: int, plies: int, comment: str, black: str
) -> None:
    actions = random_actions(game, seed, plies)
    text = sgf.write(sgf.SgfGame(game, actions, black=black, comments=[comment] * len(actions)))
    assert sgf.read(text) == (game, actions)
    assert sgf.read(text, game) == (game, actions)


@given(seed=st.integers(0, 2**32))
def test_sgfmill_plays_the_same_board(seed: int) -> None:
    """An independent reader sees the stones that the core sees."""
    actions = random_actions(GO, seed, 60)
    game = sgfmill_sgf.Sgf_game.from_string(sgf.write(sgf.SgfGame(GO, actions)))
    board, moves = sgf_moves.get_setup_and_moves(game)
    for colour, move in moves:
        if move is not None:
            board.play(*move, colour)
    ours = GoBoard(State(GO, actions))
    theirs = [
        {None: -1, "b": 0, "w": 1}[board.get(4 - point // 5, point % 5)] for point in range(25)
    ]
    assert ours.stones.tolist() == theirs
    black, white = ours.area()
    assert board.area_score() == black - white


@given(seed=st.integers(0, 2**32))
def test_the_score_agrees_with_the_rules(seed: int) -> None:
    game = "go(size=5,komi=0.5,suicide=true)"
    state = State(game, random_actions(game, seed, 100))
    while not state.is_terminal:
        state.apply(25)
    assert go_score(state)[0] == {1: "B", -1: "W"}[state.result]


def test_a_draw_is_written_as_one() -> None:
    game = "go(size=5,komi=0)"
    assert "RE[0]" in sgf.write(sgf.SgfGame(game, [25, 25]))


def test_what_is_known_of_a_game_is_written() -> None:
    text = sgf.write(
        sgf.SgfGame(GO, [6, 25], black="run 3", white="run ]2", resigned=True, root={"GN": "x"})
    )
    root = sgfmill_sgf.Sgf_game.from_string(text).get_root()
    assert root.get("FF") == 4
    assert root.get("GM") == 1
    assert root.get("SZ") == 5
    assert root.get("KM") == 7.5
    assert root.get("RE") == "W+R"
    assert (root.get("PB"), root.get("PW"), root.get("GN")) == ("run 3", "run ]2", "x")


def test_an_unfinished_game_has_no_result() -> None:
    assert "RE" not in sgf.write(sgf.SgfGame(GO, [6]))


def test_variations_are_left_aside() -> None:
    text = "(;FF[4]SZ[5](;B[aa](;W[bb])(;W[cc]))(;B[ee]))"
    assert sgf.read(text)[1] == [0, 6]


HANDICAPS = [
    ("(;SZ[5]HA[2]AB[aa][bb];W[cc])", [0, 25, 6, 12]),
    ("(;SZ[5]AB[aa:ba];W[cc];B[dd])", [0, 25, 1, 12, 18]),
    ("(;SZ[5];AB[aa][bb];B[cc])", [0, 25, 6, 25, 12]),
    ("(;SZ[5];W[cc])", [25, 12]),
    ("(;SZ[5];B[cc];B[dd];W[ee])", [12, 25, 18, 24]),
    ("(;SZ[5];B[cc];W[tt];B[])", [12, 25, 25]),
    ("(;SZ[5])", []),
]


@pytest.mark.parametrize(("text", "actions"), HANDICAPS)
def test_moves_out_of_turn_are_put_after_passes(text: str, actions: list[int]) -> None:
    assert sgf.read(text, GO)[1] == actions


REFUSED = [
    ("", "not SGF"),
    ("not a game", "not SGF"),
    ("(;SZ[5]", "not SGF"),
    ("(;GM[40]SZ[5])", r"GM\[40\]: give GM\[1\] \(Go\) or GM\[2\]"),
    ("(;GM[2]SZ[10])", "Othello 10x10"),
    ("(;GM[2])", "of othello, the game is 'go"),
    ("(;SZ[9])", "board size 9, not 5"),
    ("(;FF[4])", "board size 19, not 5"),
    ("(;SZ[5:6])", "give a square one"),
    ("(;SZ[²])", "give a square one"),
    ("(;SZ[1])", "give 2 to 19"),
    ("(;SZ[20])", "give 2 to 19"),
    ("(;SZ[99999999])", "give 2 to 19"),
    ("(;SZ[5]KM[6.5])", "komi 6.5, the game is played with 7.5: change KM or remove it"),
    ("(;SZ[5]KM[nan])", "komi 'nan'"),
    ("(;SZ[5]KM[1e999])", "komi '1e999'"),
    ("(;SZ[5]KM[6.7])", "komi '6.7': give a multiple of 0.5"),
    ("(;SZ[5]AB[aa]AW[bb])", "by AW: only Black's handicap"),
    ("(;SZ[5];B[aa];AE[aa])", "by AE"),
    ("(;SZ[5];B[aa];AB[bb])", "by AB"),
    ("(;SZ[5];B[aa]W[bb])", "both players in one node"),
    ("(;SZ[5];B[zz])", "'zz' is no point"),
    ("(;SZ[5];B[a])", "'a' is no point"),
    ("(;SZ[5]AB[aa:])", "'' is no point"),
    ("(;SZ[5];B[aa];W[aa])", r"node 2 of the SGF: W\[aa\]"),
    ("(;SZ[5];B[];W[];B[aa])", "the game is over after 2 plies"),
    ("(;SZ[5];B[];B[aa])", "a pass of white would end the game"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_what_cannot_be_expressed_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidRequestError, match=reason):
        sgf.read(text, GO)


def test_othello_passes_only_where_it_must() -> None:
    with pytest.raises(InvalidRequestError, match="black cannot pass here"):
        sgf.read("(;GM[2];W[dc])", "othello")


def test_huge_komi_is_no_game() -> None:
    with pytest.raises(InvalidRequestError, match="is not played here"):
        sgf.read("(;SZ[9]KM[1e300])")


def test_other_games_are_named_with_those_that_have_sgf() -> None:
    with pytest.raises(ConfigError, match="go and othello, not for 'connect_four'"):
        sgf.write(sgf.SgfGame("connect_four", [3]))
    with pytest.raises(ConfigError, match="not for 'connect_four'"):
        sgf.read("(;SZ[7])", "connect_four")


@given(st.text(alphabet="(;)[]BWSZ12ab:\\", max_size=200))
def test_noise_never_gets_further_than_a_refusal(text: str) -> None:
    try:
        name, actions = sgf.read(text)
    except InvalidRequestError:
        return
    State(name, actions)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "(;SZ[5]" + "(;" * 50_000 + ")" * 50_001,
        "(;SZ[5]" + ";" * 200_000 + ")",
        "(;SZ[5];C[" + "\\]" * 100_000 + "])",
        "(;SZ[5]" + ";B[]" * 50_000 + ")",
        "(;SZ[5]AB" + "[aa:ee]" * 30_000 + ")",
        "(;SZ[5]AB" + "[aa:aa]" * 30_000 + ")",
    ],
)
def test_hostile_files_come_to_an_end(text: str) -> None:
    assert len(text) <= MAX_CHARACTERS
    with contextlib.suppress(InvalidRequestError):
        State(*sgf.read(text, GO))


def test_longer_files_are_not_looked_at() -> None:
    with pytest.raises(InvalidRequestError, match="at most"):
        sgf.read("(;SZ[5]" + " " * MAX_CHARACTERS + ")", GO)
