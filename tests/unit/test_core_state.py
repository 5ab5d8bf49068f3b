"""The rules of the core, used from Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from zerofleet_core import (
    State,
    game_names,
    game_spec,
    invert_symmetry,
    transform_observation,
    transform_policy,
)

GAMES = ["connect_four", "go(size=5)", "go(size=9)", "gomoku", "mnk(m=5,n=4,k=4)", "tic_tac_toe"]


def random_actions(game: str, seed: int, plies: int) -> list[int]:
    random = np.random.default_rng(seed)
    state = State(game)
    actions: list[int] = []
    while len(actions) < plies and not state.is_terminal:
        actions.append(int(random.choice(state.legal_actions())))
        state.apply(actions[-1])
    return actions


def planes(game: str, observation: np.ndarray) -> np.ndarray:
    shape = game_spec(game).observation_shape
    return np.unpackbits(observation)[: np.prod(shape)].reshape(shape)


def test_specs() -> None:
    assert game_names() == [
        "chess",
        "connect_four",
        "go",
        "gomoku",
        "mnk",
        "othello",
        "tic_tac_toe",
    ]
    four = game_spec("connect_four")
    assert (four.num_actions, four.observation_shape, four.observation_bytes) == (7, (3, 6, 7), 16)
    assert (four.max_length, four.num_symmetries, four.board_points) == (42, 2, 42)
    three = game_spec("tic_tac_toe")
    assert (three.num_actions, three.observation_shape, three.observation_bytes) == (
        9,
        (3, 3, 3),
        4,
    )
    assert (three.max_length, three.num_symmetries, three.board_points) == (9, 8, 9)


def test_observations_by_hand() -> None:
    marks = planes("tic_tac_toe", State("tic_tac_toe", [0, 4, 8]).observation())
    assert marks[0].tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 1]]
    assert marks[1].tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert marks[2].all()  # the second player moves
    discs = planes("connect_four", State("connect_four", [3, 3, 0, 6]).observation())
    assert np.argwhere(discs[0]).tolist() == [[5, 0], [5, 3]]  # discs of the player to move
    assert np.argwhere(discs[1]).tolist() == [[4, 3], [5, 6]]
    assert not discs[2].any()


@given(st.sampled_from(GAMES), st.integers(0, 2**32), st.integers(0, 42))
def test_symmetries_commute_with_the_rules(game: str, seed: int, plies: int) -> None:
    actions = random_actions(game, seed, plies)
    state = State(game, actions)
    numbers = np.arange(game_spec(game).num_actions, dtype=np.float32)
    for symmetry in range(game_spec(game).num_symmetries):
        moved_numbers = transform_policy(game, numbers, symmetry)
        landing = np.argsort(moved_numbers).tolist()  # landing point of each action
        twin = State(game, [landing[action] for action in actions])
        assert twin.result == state.result
        assert twin.legal_actions() == sorted(landing[a] for a in state.legal_actions())
        moved = transform_observation(game, state.observation(), symmetry)
        np.testing.assert_array_equal(moved, twin.observation())
        back = invert_symmetry(game, symmetry)
        np.testing.assert_array_equal(transform_policy(game, moved_numbers, back), numbers)
        restored = transform_observation(game, moved, back)
        np.testing.assert_array_equal(restored, state.observation())


def test_copies_are_independent() -> None:
    state = State("connect_four", [3])
    copy = state.copy()
    copy.apply(3)
    assert (state.ply, copy.ply) == (1, 2)
    assert state.hash != copy.hash
    assert State("connect_four", [0, 1, 2]).hash == State("connect_four", [2, 1, 0]).hash


@pytest.mark.parametrize("game", GAMES)
def test_actions_have_names(game: str) -> None:
    state = State(game)
    names = [state.action_to_string(action) for action in state.legal_actions()]
    assert len(set(names)) == game_spec(game).num_actions
    assert [state.string_to_action(name) for name in names] == state.legal_actions()
    with pytest.raises(ValueError, match="'z99'"):
        state.string_to_action("z99")
    with pytest.raises(ValueError, match="no action 999"):
        state.action_to_string(999)


def test_pictures() -> None:
    assert str(State("tic_tac_toe", [0, 4])) == "  a b c\n1 x . .\n2 . o .\n3 . . ."
    lines = str(State("connect_four", [3, 3, 4])).splitlines()
    assert lines[-3:] == [". . . o . . .", ". . . x x . .", "1 2 3 4 5 6 7"]


def test_what_a_game_tells_of_its_end() -> None:
    state = State("go(size=3,komi=0.5)", [4])
    with pytest.raises(ValueError, match="final_score at ply 1: the game is not over"):
        state.final_score()
    state.apply(9)
    state.apply(9)
    planes = state.final_planes()
    assert (planes.dtype, planes.tolist()) == (np.int8, [1] * 9)
    assert state.final_score() == 8.5
    with pytest.raises(ValueError, match="tic_tac_toe has no final_planes"):
        State("tic_tac_toe").final_planes()


def test_illegal_actions_are_named() -> None:
    with pytest.raises(ValueError, match="action 0 at ply 6 is illegal in connect_four"):
        State("connect_four", [0] * 7)
    with pytest.raises(ValueError, match="action -1 at ply 0"):
        State("tic_tac_toe", [-1])
    # no action is legal after the end of the game
    with pytest.raises(ValueError, match="at ply 5"):
        State("tic_tac_toe", [0, 3, 1, 4, 2, 5])
    with pytest.raises(ValueError, match="symmetries 0 to 7"):
        invert_symmetry("tic_tac_toe", 8)
    with pytest.raises(ValueError, match=r"expected \[4\]"):
        transform_observation("tic_tac_toe", np.zeros(5, np.uint8), 0)


def test_text_outside_of_utf_8_is_refused_in_escapes() -> None:
    with pytest.raises(ValueError, match=r"'a\\udcff' is not an action of chess"):
        State("chess").string_to_action("a\udcff")
    with pytest.raises(ValueError, match=r"'\\udcff'"):
        State("chess", [], "\udcff")
    for make in (State, game_spec):
        with pytest.raises(ValueError, match=r"unknown game 'chess\\udcff'"):
            make("chess\udcff")
