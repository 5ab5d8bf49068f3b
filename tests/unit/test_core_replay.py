"""Additions of the binding to the replay buffer: dtypes, shapes, ownership, threads and errors.

The content of a batch, forgetting and refusals are tested in core/tests, too.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, replace
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
