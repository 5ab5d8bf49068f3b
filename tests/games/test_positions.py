"""Start positions: written, read back, refused with the reason, and learnt from, in every game."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zerofleet_core import Match, ReplayBuffer, Search, SearchConfig, game_spec

from zerofleet.errors import ConfigError, IllegalActionError
from zerofleet.games import State, format_actions, parse_actions
from zerofleet.games.conformance import check_conformance
from zerofleet.games.notation import checked_start

ROW_GAMES = ("connect_four", "gomoku", "mnk(m=12,n=4,k=4)", "tic_tac_toe")
GO = ("go(size=5)", "go(size=9,komi=6.5,observation=liberties)", "go(size=19)")
GAMES = (*ROW_GAMES, *GO, "othello")
HISTORY = 8  # boards that Go's observation shows


def random_state(game: str, seed: int, most: int) -> State:
    generator = random.Random(seed)
    state = State(game)
    for _ in range(generator.randint(0, most)):
        if state.is_terminal:
            break
        state.apply(generator.choice(state.legal_actions()))
    return state


def planes(state: State) -> np.ndarray:
    shape = game_spec(state.game).observation_shape
    return np.unpackbits(state.observation())[: np.prod(shape)].reshape(shape)


@pytest.mark.parametrize("game", GAMES)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_written_position_is_read_back(game: str, seed: int) -> None:
    state = random_state(game, seed, 120)
    text = state.setup_text()
    read = State(game, [], text)
    assert (read.setup_text(), read.start, str(read)) == (text, text, str(state))
    assert read.to_play == state.to_play
    if game in GO:
        # Repetition, passes and earlier boards are forgotten.
        assert set(state.legal_actions()) <= set(read.legal_actions())
        shown, expected = planes(read), planes(state)
        assert (shown[:2] == expected[:2]).all()
        assert (shown[2 * HISTORY] == expected[2 * HISTORY]).all()
        for age in range(1, HISTORY):
            assert (shown[2 * age : 2 * age + 2] == shown[:2]).all()
        return
    assert (read.is_terminal, read.result) == (state.is_terminal, state.result)
    assert read.legal_actions() == state.legal_actions()
    assert (planes(read) == planes(state)).all()
    assert read.hash == state.hash
    if game in ROW_GAMES:
        assert read.ply == state.ply


@pytest.mark.parametrize("game", GAMES)
def test_the_usual_start_has_a_text(game: str) -> None:
    start = State(game)
    assert State(game, [], start.setup_text()).hash == start.hash
    assert checked_start(game, f"  {start.setup_text()} ") == "" == checked_start(game, " ")


def test_known_texts() -> None:
    assert State("connect_four", [3, 3, 2]).setup_text() == "7/7/7/7/3o3/2xx3 o"
    assert State("tic_tac_toe", [4, 0]).setup_text() == "o2/1x1/3 x"
    assert State("mnk(m=12,n=2,k=2)", [13]).setup_text() == "12/1x10 o"
    assert State("go(size=5)", [0, 24]).setup_text() == "X4/5/5/5/4O X"
    assert State("othello").setup_text() == f"{'-' * 27}OX{'-' * 6}XO{'-' * 27} X"
    assert State("othello", [], "8/8/8/3OX3/3XO3/8/8/8 o").to_play == 1
    # The first position of the FFO endgame tests, number 40.
    ffo = "O--OOOOX-OOOOOOXOOXXOOOXOOXOOOXXOOOOOOXX---OOOOX----O--X-------- X"
    position = State("othello", [], ffo)
    assert position.setup_text() == ffo
    assert "a2" in {position.action_to_string(action) for action in position.legal_actions()}


REFUSED = [
    ("connect_four", "7/7/7/7/x6/7 o", "column 1 has a disc above an empty cell"),
    ("connect_four", "7/7/7/7/7/7 o", "0 x and 0 o, so x is to move"),
    ("connect_four", "7/7/7/7/7/xx5 o", "2 x and 0 o; x moves first"),
    ("connect_four", "7/7/7/7/oooo3/xxxx3 x", "both players have a winning row"),
    (
        "connect_four",
        "7/7/7/o6/oxx4/oxxxx2 o",
        "x moves first and the players take turns, so x has as many or one more",
    ),
    ("connect_four", "7/7/7/7/7/7", "the side to move is missing"),
    ("connect_four", "7/7/7/7/7/xé4 o", "a character outside ASCII"),
    ("connect_four", "x" * 5000, "at most 1000 are read"),
    ("connect_four", "99999999999999999999/7/7/7/7/7 x", "more than 7 points"),
    ("connect_four", "0007/7/7/7/7/07 x", None),
    ("connect_four", "7/7/7/7/7/70 x", "a run of 70"),
    ("tic_tac_toe", "xxx/oo1/o2 x", "x has a winning row already"),
    ("tic_tac_toe", "xo/3/3/3 x", "4 rows instead of 3"),
    ("gomoku", "15/15 x", "2 rows instead of 15"),
    ("othello", "8/8/8/8/8/8/8/8 X", "square d4 is empty"),
    ("othello", "-" * 64 + " X", "square d4 is empty"),
    ("othello", "-" * 63 + " X", "1 row instead of 8"),
    ("go(size=5)", "XO3/O4/5/5/5 X", "the chain at A5 has no liberty"),
    ("go(size=5)", "X4/5/5/5/5 B", "must be X or O, not 'B'"),
    ("openspiel:chess", "8/8/8/8/8/8/8/8 w - - 0 1", "has no notation for positions"),
]


@pytest.mark.parametrize(("game", "text", "reason"), REFUSED)
def test_what_is_no_position_is_refused(game: str, text: str, reason: str | None) -> None:
    if game.startswith("openspiel"):
        pytest.importorskip("pyspiel")
    if reason is None:
        State(game, [], text)
        return
    if "70" in text:
        reason = "more than 7 points"
    with pytest.raises(ValueError, match=reason):
        State(game, [], text)
    with pytest.raises(ConfigError, match=f"is not a position of .*{reason}"):
        checked_start(game, text)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(GAMES), st.text(alphabet="xoXO./-0123456789 ", max_size=90))
def test_any_text_is_read_or_refused(game: str, text: str) -> None:
    try:
        state = State(game, [], text)
    except ValueError:
        pass
    else:
        assert State(game, [], state.setup_text()).hash == state.hash


def test_a_game_without_a_notation_says_so() -> None:
    pytest.importorskip("pyspiel")
    with pytest.raises(ValueError, match="openspiel:chess has no notation for positions"):
        State("openspiel:chess").setup_text()
    assert not game_spec("openspiel:chess").sets_up_positions
    assert game_spec("connect_four").sets_up_positions


@pytest.mark.parametrize("game", ["go(size=9)", "mnk(m=5,n=4,k=4)", "othello", "tic_tac_toe"])
def test_games_keep_the_contract(game: str) -> None:
    assert check_conformance(game, 3).game == game


def test_lines_begin_at_the_start_position() -> None:
    start = "7/7/7/7/3o3/2xx3 o"
    actions = parse_actions("connect_four", "2 5", start)
    assert actions == [1, 4]
    assert format_actions("connect_four", actions, start) == "2 5"
    with pytest.raises(IllegalActionError, match="ply 6: '4'"):
        parse_actions("connect_four", "1 2 4 4 4 4 4", start)


@pytest.mark.parametrize(
    ("game", "start"),
    [
        ("connect_four", "7/7/7/7/3o3/2xx3 o"),
        ("go(size=5)", "X1O2/5/2X2/5/5 O"),
        ("go(size=7,komi=3.5)", "X1O4/7/2X4/7/7/7/7 O"),  # behind virtual calls
        ("othello", "8/8/8/2XXX3/3XO3/8/8/8 O"),
    ],
)
def test_training_sees_the_positions_after_the_start(game: str, start: str) -> None:
    generator = random.Random(1)
    state = State(game, [], start)
    states, legal, line = list[State](), list[list[int]](), list[int]()
    while not state.is_terminal:
        states.append(state.copy())
        legal.append(state.legal_actions())
        line.append(generator.choice(legal[-1]))
        state.apply(line[-1])
    columns = (
        np.array(line, np.int16),
        state.result,
        np.ones(len(line), np.bool_),
        np.cumsum([0, *map(len, legal)]).astype(np.int32),
        np.array([action for actions in legal for action in actions], np.int16),
        np.ones(sum(map(len, legal)), np.int32),
    )
    buffer = ReplayBuffer(game, 1000, 10)
    assert buffer.add(*columns, start=start) == len(line)
    observations, policies, values, plies, *_ = buffer.sample_with_plies(200, 1, symmetry=False)
    for row, ply in enumerate(plies.tolist()):
        assert (observations[row] == states[ply].observation()).all()
        assert np.flatnonzero(policies[row]).tolist() == legal[ply]
        assert values[row] == state.result * (1 - 2 * states[ply].to_play)
    with pytest.raises(ValueError, match=r"ply \d+: "):
        buffer.add(*columns)
    with pytest.raises(ValueError, match="row"):
        buffer.add(*columns, start="no position")


def test_searches_and_matches_begin_at_start_positions() -> None:
    config = SearchConfig(num_simulations=60)
    wins = "7/7/7/7/ooo4/xxx4 x"
    search = Search("connect_four", [[], [3]], config, 1, starts=[wins, ""])
    match = Match("connect_four", [[], [3]], config, 1, starts=[wins, ""])
    while len(rows := search.select()):
        search.backup(np.zeros((len(rows), 7), np.float32), np.zeros(len(rows), np.float32), 1)
    assert search.results()[0].best_action == 3
    while not match.done:
        for side in (0, 1):
            if count := len(match.select(side)):
                zeros = np.zeros((count, 7), np.float32)
                match.backup(side, zeros, np.zeros(count, np.float32), 1)
    games = sorted(match.take_finished(), key=lambda game: game.game_id)
    assert [game.start for game in games] == [wins, wins, "", ""]
    assert games[0].action.tolist() == games[1].action.tolist() == [3]
    assert games[0].to_play.tolist() == [0]
    with pytest.raises(ValueError, match="1 starts for 2 positions"):
        Search("connect_four", [[], [3]], config, 1, starts=[wins])
    with pytest.raises(ValueError, match="column 1 has a disc"):
        Match("connect_four", [[]], config, 1, starts=["7/7/7/7/x6/7 o"])
