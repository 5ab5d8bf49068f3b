"""Matches and the search of positions in the core, as Python sees them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from zerofleet_core import (
    GameColumns,
    Match,
    Search,
    SearchConfig,
    State,
    game_spec,
)

Answer = tuple[NDArray[np.float16], NDArray[np.float32]]
Predict = Callable[[NDArray[np.uint8]], Answer]


def predictor(game: str, salt: int = 0) -> Predict:
    """A network without weights: its answer is drawn from the bits that it is shown."""
    num_actions = game_spec(game).num_actions

    def predict(observations: NDArray[np.uint8]) -> Answer:
        draws = [np.random.default_rng([salt, *row.tolist()]) for row in observations]
        logits = [draw.normal(size=num_actions) for draw in draws]
        value = [draw.uniform(-0.8, 0.8) for draw in draws]
        shape = (len(draws), num_actions)
        return np.reshape(logits, shape).astype(np.float16), np.array(value, np.float32)

    return predict


def know_nothing(num_actions: int) -> Predict:
    def predict(observations: NDArray[np.uint8]) -> Answer:
        rows = len(observations)
        return np.zeros((rows, num_actions), np.float16), np.zeros(rows, np.float32)

    return predict


def test_match_swaps_colours() -> None:
    openings = [[3], [0, 6]]
    match = Match("connect_four", openings, SearchConfig(num_simulations=12, temperature=0), 1)
    predictors = predictor("connect_four", 1), predictor("connect_four", 2)
    games: list[GameColumns] = []
    while not match.done:
        for side in (0, 1):
            observations = match.select(side)
            if len(observations) > 0:
                match.backup(side, *predictors[side](observations), 20 + side)
        games += match.take_finished()
    assert sorted(game.game_id for game in games) == [0, 1, 2, 3]
    for game in games:
        opening = openings[game.game_id // 2]
        assert game.actions[: len(opening)].tolist() == opening
        assert State("connect_four", game.actions.tolist()).result == game.result
        for ply, version in enumerate(game.model_version.tolist()):
            side = (ply + game.game_id) % 2
            assert version == (0 if ply < len(opening) else 20 + side)
            assert (game.offsets[ply + 1] > game.offsets[ply]) == (ply >= len(opening))
    with pytest.raises(ValueError, match="sides 0 and 1"):
        match.select(2)
    with pytest.raises(ValueError, match="ply 0"):
        Match("connect_four", [[7]], SearchConfig(), 1)


def test_match_of_one_model_is_one_game_twice() -> None:
    config = SearchConfig(num_simulations=10, temperature=0, random_symmetry=False)
    match = Match("tic_tac_toe", [[4]], config, 1)
    predict = predictor("tic_tac_toe")
    while not match.done:
        for side in (0, 1):
            match.backup(side, *predict(match.select(side)), 1)
    first, second = sorted(match.take_finished(), key=lambda game: game.game_id)
    assert first.actions.tolist() == second.actions.tolist()


def search_all(search: Search, predict: Predict) -> int:
    most_rows = 0
    while not search.done:
        observations = search.select()
        most_rows = max(most_rows, len(observations))
        search.backup(*predict(observations), 1)
    assert len(search.select()) == 0
    return most_rows


@settings(max_examples=15, deadline=None)
@given(leaves=st.integers(1, 12), num_simulations=st.integers(1, 150), noise=st.booleans())
def test_search_returns_all_virtual_loss(leaves: int, num_simulations: int, noise: bool) -> None:
    positions = [[], [3, 3], [3, 2, 3, 2, 3], [0, 1, 0, 1, 0, 1, 0]]
    config = SearchConfig(num_simulations=num_simulations)
    search = Search("connect_four", positions, config, 5, leaves_per_position=leaves, noise=noise)
    assert search_all(search, predictor("connect_four")) <= 3 * leaves
    *open_results, over = search.results()
    for result, actions in zip(open_results, positions, strict=False):
        state = State("connect_four", actions)
        assert result.actions.tolist() == state.legal_actions()
        assert result.visit_counts.sum() == result.simulations == num_simulations
        visited = result.visit_counts > 0
        assert (np.isnan(result.q_values) == ~visited).all()
        assert np.abs(result.q_values[visited]).max() <= 1 + 1e-6
        assert abs(result.root_value) <= 1
        best = int(result.visit_counts.max())
        assert result.visit_counts[result.actions.tolist().index(result.best_action)] == best
        for action, line in zip(result.actions.tolist(), result.principal_variations, strict=True):
            assert line[0] == action
            State("connect_four", [*actions, *line])
    assert over.actions.size == 0
    assert (over.best_action, over.root_value, over.simulations) == (-1, -1.0, 0)


def test_search_finds_the_win_and_the_block() -> None:
    wins, blocks = [0, 3, 1, 4], [0, 3, 1]
    search = Search("tic_tac_toe", [wins, blocks], SearchConfig(num_simulations=300), 1)
    search_all(search, know_nothing(9))
    win, block = search.results()
    assert win.best_action == 2
    assert win.root_value > 0.8
    assert block.best_action == 2
    line = dict(zip(block.actions.tolist(), block.principal_variations, strict=True))
    assert line[5][:2] == [5, 2]


def test_results_may_be_read_at_any_time() -> None:
    search = Search("tic_tac_toe", [[]], SearchConfig(num_simulations=20), 1, leaves_per_position=3)
    (before,) = search.results()
    assert (before.actions.size, before.best_action, before.simulations) == (0, -1, 0)
    predict = predictor("tic_tac_toe")
    simulations = 0
    while not search.done:
        observations = search.select()
        (result,) = search.results()
        assert result.visit_counts.sum() == result.simulations >= simulations
        simulations = result.simulations
        search.backup(*predict(observations), 1)
