"""What every registered game must keep, whatever its rules are."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
import zerofleet_core
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from zerofleet import games
from zerofleet.games import State

GAMES = zerofleet_core.game_names()
PLAYOUTS = 30

every_game = pytest.mark.parametrize("game", GAMES)


def play(game: str, choices: list[int]) -> State:
    """Play legal actions, picked by these numbers, until they or the game end."""
    state = State(game)
    for choice in choices:
        if state.is_terminal:
            break
        legal = state.legal_actions()
        state.apply(legal[choice % len(legal)])
    return state


def playouts(game: str) -> list[list[int]]:
    """Lines of complete games at random, the same ones in each run."""
    generator = random.Random(f"{game} playouts")
    lines: list[list[int]] = []
    for _ in range(PLAYOUTS):
        state, line = State(game), list[int]()
        while not state.is_terminal:
            line.append(generator.choice(state.legal_actions()))
            state.apply(line[-1])
        lines.append(line)
    return lines


def planes(state: State) -> NDArray[np.uint8]:
    shape = games.spec(state.game).observation_shape
    return np.unpackbits(state.observation(), count=int(np.prod(shape))).reshape(shape)


@every_game
def test_a_playout_keeps_the_contract_of_a_game(game: str) -> None:
    spec = games.spec(game)
    for line in playouts(game):
        state = State(game)
        assert (state.ply, state.to_play) == (0, 0)
        for ply, action in enumerate(line):
            legal = state.legal_actions()
            assert legal == sorted(set(legal))
            assert 0 <= legal[0] <= legal[-1] < spec.num_actions
            assert (state.game, state.ply, state.is_terminal, state.result) == (game, ply, False, 0)
            assert state.to_play in {0, 1}
            state.apply(action)
        assert state.is_terminal
        assert state.legal_actions() == []
        assert state.result in {-1, 0, 1}
        assert len(line) <= spec.max_length


@every_game
def test_an_illegal_action_is_refused_and_changes_nothing(game: str) -> None:
    num_actions = games.spec(game).num_actions
    for line in playouts(game)[:5]:
        state = State(game)
        for action in [*line, None]:
            before = (state.hash, state.ply, str(state))
            for illegal in set(range(-2, num_actions + 2)) - set(state.legal_actions()):
                with pytest.raises(ValueError, match=f"action {illegal} at ply {state.ply}"):
                    state.apply(illegal)
            assert (state.hash, state.ply, str(state)) == before
            if action is not None:
                state.apply(action)


@every_game
def test_a_line_that_breaks_the_rules_is_no_state(game: str) -> None:
    line = playouts(game)[0]
    with pytest.raises(ValueError, match=f"at ply {len(line)}"):
        State(game, [*line, 0])
    with pytest.raises(ValueError, match="at ply 1"):
        State(game, [line[0], games.spec(game).num_actions])


@every_game
def test_copies_are_independent(game: str) -> None:
    for line in playouts(game)[:5]:
        for ply, action in enumerate(line):
            state = State(game, line[:ply])
            copy = state.copy()
            assert (copy.hash, copy.ply, str(copy)) == (state.hash, state.ply, str(state))
            copy.apply(action)
            assert (state.ply, copy.ply) == (ply, ply + 1)
            assert state.hash == State(game, line[:ply]).hash
            assert copy.hash == State(game, line[: ply + 1]).hash != state.hash


@every_game
def test_one_position_one_hash(game: str) -> None:
    """Over many positions, equal pictures and equal hashes are the same thing."""
    hash_of: dict[tuple[str, int], int] = {}
    for line in playouts(game):
        state = State(game)
        for action in line:
            state.apply(action)
            assert hash_of.setdefault((str(state), state.to_play), state.hash) == state.hash
    assert len(set(hash_of.values())) == len(hash_of)


@every_game
def test_the_order_of_actions_does_not_change_a_position(game: str) -> None:
    """Whatever order of the same actions is legal and looks equal has an equal hash."""
    transpositions = 0
    for line in playouts(game)[:10]:
        reference = State(game, line[:4])
        for first, second in itertools.permutations((0, 2)):
            order = [line[first], line[1], line[second], line[3]]
            try:
                state = State(game, order)
            except ValueError:
                continue
            if str(state) == str(reference):
                assert state.hash == reference.hash
                assert (state.observation() == reference.observation()).all()
                transpositions += order != line[:4]
    assert transpositions > 0


@every_game
def test_observations_are_packed_planes(game: str) -> None:
    spec = games.spec(game)
    rows, columns = spec.observation_shape[1:]
    assert rows * columns == spec.board_points
    for line in playouts(game)[:5]:
        for ply in range(len(line) + 1):
            state = State(game, line[:ply])
            packed = state.observation()
            assert (packed.dtype, packed.shape) == (np.uint8, (spec.observation_bytes,))
            assert (np.packbits(planes(state)) == packed).all()  # the padding is zeros


@every_game
def test_actions_have_names(game: str) -> None:
    state = State(game)
    texts = [state.action_to_string(action) for action in range(games.spec(game).num_actions)]
    assert len(set(texts)) == len(texts)
    assert [state.string_to_action(text) for text in texts] == list(range(len(texts)))
    for text in ("", "nonsense", texts[0] + texts[0] + texts[0]):
        with pytest.raises(ValueError, match=game):
            state.string_to_action(text)
    for action in (-1, len(texts)):
        with pytest.raises(ValueError, match=game):
            state.action_to_string(action)


@given(st.sampled_from(GAMES), st.lists(st.integers(0, 2**16), max_size=60), st.integers(0, 2**16))
@settings(max_examples=150, deadline=None)
def test_symmetries_commute_with_actions(game: str, choices: list[int], number: int) -> None:
    spec = games.spec(game)
    symmetry = number % spec.num_symmetries
    state, image = State(game), State(game)
    for choice in choices:
        if state.is_terminal:
            break
        legal = state.legal_actions()
        assert image.legal_actions() == sorted(moved(game, action, symmetry) for action in legal)
        action = legal[choice % len(legal)]
        state.apply(action)
        image.apply(moved(game, action, symmetry))
    transformed = zerofleet_core.transform_observation(game, state.observation(), symmetry)
    assert (transformed == image.observation()).all()
    assert (image.is_terminal, image.result) == (state.is_terminal, state.result)


def moved(game: str, action: int, symmetry: int) -> int:
    """Where a symmetry puts an action."""
    one_hot = np.zeros(games.spec(game).num_actions, np.float32)
    one_hot[action] = 1.0
    return int(zerofleet_core.transform_policy(game, one_hot, symmetry).argmax())


@given(st.sampled_from(GAMES), st.lists(st.integers(0, 2**16), max_size=60))
@settings(max_examples=50, deadline=None)
def test_every_symmetry_can_be_undone(game: str, choices: list[int]) -> None:
    spec = games.spec(game)
    observation = play(game, choices).observation()
    policy = np.random.default_rng(len(choices)).random(spec.num_actions, np.float32)
    for symmetry in range(spec.num_symmetries):
        inverse = zerofleet_core.invert_symmetry(game, symmetry)
        there = zerofleet_core.transform_observation(game, observation, symmetry)
        assert (zerofleet_core.transform_observation(game, there, inverse) == observation).all()
        there = zerofleet_core.transform_policy(game, policy, symmetry)
        assert (zerofleet_core.transform_policy(game, there, inverse) == policy).all()


@every_game
def test_symmetry_zero_is_the_identity(game: str) -> None:
    observation = State(game, playouts(game)[0]).observation()
    assert (zerofleet_core.transform_observation(game, observation, 0) == observation).all()
    with pytest.raises(ValueError, match="symmetr"):
        zerofleet_core.invert_symmetry(game, games.spec(game).num_symmetries)
