"""Additions of the binding to the replay buffer: dtypes, shapes, ownership, threads and errors.

The content of a batch, forgetting and refusals are tested in core/tests, too.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from zerofleet_core import ReplayBuffer, State, game_names, game_spec


@dataclass(frozen=True)
class Columns:
    """Arguments of ``ReplayBuffer.add``."""

    action: NDArray[np.int16]
    result: int
    full_search: NDArray[np.bool_]
    offsets: NDArray[np.int32]
    legal_actions: NDArray[np.int16]
    visit_counts: NDArray[np.int32]

    def add_to(self, buffer: ReplayBuffer) -> int:
        return buffer.add(
            self.action,
            self.result,
            self.full_search,
            self.offsets,
            self.legal_actions,
            self.visit_counts,
        )


def random_game(game: str, seed: int, full_search: float = 1.0) -> Columns:
    generator = random.Random(seed)
    state = State(game)
    actions, offsets, children, counts = list[int](), [0], list[int](), list[int]()
    while not state.is_terminal:
        legal = state.legal_actions()
        children += legal
        counts += [generator.randrange(1, 100) for _ in legal]
        offsets.append(len(children))
        actions.append(generator.choice(legal))
        state.apply(actions[-1])
    return Columns(
        np.array(actions, np.int16),
        state.result,
        np.array([generator.random() < full_search for _ in actions], np.bool_),
        np.array(offsets, np.int32),
        np.array(children, np.int16),
        np.array(counts, np.int32),
    )


@pytest.mark.parametrize("game", game_names())
def test_without_symmetry_a_batch_is_rows_of_the_games(game: str) -> None:
    spec = game_spec(game)
    buffer = ReplayBuffer(game, 10_000, 100)
    expected: dict[bytes, list[tuple[list[float], float]]] = {}
    for seed in range(10):
        columns = random_game(game, seed, full_search=0.5)
        assert columns.add_to(buffer) == columns.full_search.sum()
        for ply in np.flatnonzero(columns.full_search):
            state = State(game, columns.action[:ply].tolist())
            table = slice(columns.offsets[ply], columns.offsets[ply + 1])
            counts = np.zeros(spec.num_actions, np.float32)
            counts[columns.legal_actions[table]] = columns.visit_counts[table]
            value = columns.result * (1 if state.to_play == 0 else -1)
            row = ((counts / counts.sum()).tolist(), float(value))
            expected.setdefault(state.observation().tobytes(), []).append(row)
    observations, policy_target, value_target = buffer.sample(300, 5, symmetry=False)
    assert (observations.dtype, observations.shape) == (np.uint8, (300, spec.observation_bytes))
    assert (policy_target.dtype, policy_target.shape) == (np.float32, (300, spec.num_actions))
    assert (value_target.dtype, value_target.shape) == (np.float32, (300,))
    for observation, policy, value in zip(observations, policy_target, value_target, strict=True):
        rows = expected[observation.tobytes()]
        assert any(np.allclose(policy, targets) and value == result for targets, result in rows)


def test_rows_outlive_the_buffer() -> None:
    buffer = ReplayBuffer("tic_tac_toe", 100, 10)
    random_game("tic_tac_toe", 1).add_to(buffer)
    observations, policy_target, value_target = buffer.sample(32, 1)
    del buffer
    assert observations.sum() > 0
    assert policy_target.sum() == pytest.approx(32, abs=1e-3)
    assert set(value_target.tolist()) <= {-1.0, 0.0, 1.0}
    observations[0] = 0  # a batch belongs to the caller


GAME = random_game("connect_four", 5)


def test_a_game_that_does_not_replay_is_refused_and_changes_nothing() -> None:
    buffer = ReplayBuffer("connect_four", 100, 10)
    with pytest.raises(ValueError, match=f"the result is {GAME.result}, the record says 5"):
        replace(GAME, result=5).add_to(buffer)
    with pytest.raises(ValueError, match="policy_weights has"):
        replace(GAME, visit_counts=GAME.visit_counts[:-1]).add_to(buffer)
    assert (buffer.games, buffer.positions) == (0, 0)


SEARCH_TARGETS = ["root_value", "search_surprise", "plies_to_end"]


def searched_game(buffer: ReplayBuffer, **changes: Any) -> int:
    """A game of tic-tac-toe that the first player wins at ply 4; plies 0, 2 and 4 are positions."""
    legal = [list(range(9)), [], [1, 2, 3, 5, 6, 7, 8], [], [2, 3, 6, 7, 8]]
    weights = [[1, 0, 0, 0, 0, 0, 0, 0, 1], [], [4, 2, 2, 0, 0, 0, 0], [], [1, 1, 1, 1, 1]]
    priors = [[0.25, *[0.0625] * 4, *[0.125] * 4], [], [0.25, 0.5, 0.25, 0, 0, 0, 0], [], [0] * 5]
    columns: dict[str, Any] = {
        "root_value": np.array([0.5, -0.25, 0.75, -1.0, 1.0], np.float32),
        "priors": np.array(list(chain(*priors)), np.float32),
    }
    return buffer.add(
        np.array([0, 4, 1, 5, 2], np.int16),
        1,
        np.array([True, False, True, False, True]),
        np.cumsum([0, *map(len, legal)]).astype(np.int32),
        np.array(list(chain(*legal)), np.int16),
        np.array(list(chain(*weights)), np.int32),
        **(columns | changes),
    )


def test_targets_of_the_searches_by_hand() -> None:
    buffer = ReplayBuffer("tic_tac_toe", 100, 10, value_lambda=0.5, auxiliary=SEARCH_TARGETS)
    assert (searched_game(buffer), buffer.auxiliary_width) == (3, 3)
    *_, targets, ply, _ = buffer.all_positions()
    assert ply.tolist() == [0, 2, 4]
    assert targets.dtype == np.float32
    root_value, surprise, plies = targets.T
    assert root_value.tolist() == [0.5, 0.75, 1.0]  # for the player to move
    # 1/2 log (1/2 / 1/4) + 1/2 log (1/2 / 1/8), 1/2 log 2 - 1/4 log 2, and no search
    assert surprise.tolist() == pytest.approx([1.5 * np.log(2), 0.25 * np.log(2), 0.0])
    assert plies.tolist() == [5, 3, 1]
    plain = ReplayBuffer("tic_tac_toe", 100, 10, value_lambda=0.5)
    searched_game(plain)
    for ours, theirs in zip(buffer.sample(50, 3), plain.sample(50, 3), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_an_empty_buffer_has_arrays_without_rows() -> None:
    buffer = ReplayBuffer("tic_tac_toe", 100, 10, auxiliary=SEARCH_TARGETS)
    shapes = [array.shape for array in buffer.all_positions()]
    assert shapes == [
        (0, game_spec("tic_tac_toe").observation_bytes),
        (0, 9),
        (0,),
        (0, 3),
        (0,),
        (0,),
    ]


@pytest.mark.parametrize("game", ["othello", "go(size=3,komi=0.5)"])
def test_targets_of_the_searches_come_last(game: str) -> None:
    """For rules in the core, and for rules behind virtual calls."""
    names = ["opponent_policy", "final_planes", "final_score", *SEARCH_TARGETS]
    buffer = ReplayBuffer(game, 10_000, 2, auxiliary=names)
    expected: list[NDArray[np.float64]] = []
    for seed in range(3):  # the first game leaves
        columns = random_game(game, seed, full_search=0.5)
        generator = np.random.default_rng(seed)
        value = generator.uniform(-1, 1, len(columns.action)).astype(np.float32)
        priors = generator.uniform(0.01, 1, len(columns.legal_actions)).astype(np.float32)
        buffer.add(*vars(columns).values(), root_value=value, priors=priors)
        rows: list[list[float]] = []
        for ply in np.flatnonzero(columns.full_search):
            entries = slice(columns.offsets[ply], columns.offsets[ply + 1])
            policy = columns.visit_counts[entries] / columns.visit_counts[entries].sum()
            surprise = (policy * np.log(policy / priors[entries])).sum()
            rows.append([value[ply], max(0.0, surprise), len(columns.action) - ply])
        expected.append(np.array(rows))
    targets = buffer.all_positions()[3]
    spec = game_spec(game)
    assert targets.shape[1] == spec.num_actions + spec.num_final_planes * spec.board_points + 4
    np.testing.assert_allclose(targets[:, -3:], np.concatenate(expected[1:]), rtol=1e-5)


def test_targets_of_the_searches_need_their_columns() -> None:
    buffer = ReplayBuffer("tic_tac_toe", 100, 10, auxiliary=SEARCH_TARGETS)
    for name in ("root_value", "priors"):
        with pytest.raises(ValueError, match=f"{name} is missing: a target needs it"):
            searched_game(buffer, **{name: None})
    with pytest.raises(ValueError, match="priors has 2 entries, the last offset is 21"):
        searched_game(buffer, priors=np.ones(2, np.float32))
    with pytest.raises(ValueError, match=r"ply 0: a prior is not in \[0, 1\]"):
        searched_game(buffer, priors=np.full(21, np.nan, np.float32))
    assert buffer.games == 0
    plies = ReplayBuffer("tic_tac_toe", 100, 10, auxiliary=["plies_to_end"])
    assert searched_game(plies, root_value=None, priors=None) == 3
    with pytest.raises(ValueError, match="'plies_to_end', not 'regret'"):
        ReplayBuffer("tic_tac_toe", 1, 1, auxiliary=["regret"])


def test_other_dtypes_are_refused_instead_of_converted() -> None:
    buffer = ReplayBuffer("connect_four", 100, 10)
    wide: Any = GAME.action.astype(np.int64)
    with pytest.raises(TypeError, match="dtype=int16"):
        replace(GAME, action=wide).add_to(buffer)


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown game 'checkers'; known: chess, connect_four, "):
        ReplayBuffer("checkers", 10, 10)
    with pytest.raises(ValueError, match="max_positions"):
        ReplayBuffer("connect_four", 0, 10)
    with pytest.raises(ValueError, match="max_games"):
        ReplayBuffer("connect_four", 10, -1)
    buffer = ReplayBuffer("connect_four", 10, 10)
    with pytest.raises(ValueError, match="empty"):
        buffer.sample(1, 1)
    GAME.add_to(buffer)
    with pytest.raises(ValueError, match="batch_size"):
        buffer.sample(0, 1)


def test_adding_and_sampling_at_the_same_time() -> None:
    buffer = ReplayBuffer("tic_tac_toe", 60, 8)
    random_game("tic_tac_toe", 0).add_to(buffer)
    sums: list[float] = []

    def sample() -> None:
        sums.extend(float(buffer.sample(64, seed)[1].sum()) for seed in range(100))

    thread = threading.Thread(target=sample)
    thread.start()
    for seed in range(100):
        random_game("tic_tac_toe", seed).add_to(buffer)
    thread.join()
    assert sums == pytest.approx([64.0] * 100, abs=1e-3)
