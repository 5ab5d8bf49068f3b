"""Additions of the binding to the engines: dtypes, shapes, ownership, threads and errors.

Promises of the engines themselves are tested in core/tests, under the sanitizers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from zerofleet_core import (
    GameColumns,
    Match,
    Search,
    SearchConfig,
    SelfPlay,
    State,
    game_spec,
)

from zerofleet.records import DTYPES

Answer = tuple[NDArray[np.float16], NDArray[np.float32]]
Predict = Callable[[NDArray[np.uint8]], Answer]


def predictor(game: str) -> Predict:
    """A network without weights: its answer is drawn from the bits that it is shown."""
    num_actions = game_spec(game).num_actions

    def predict(observations: NDArray[np.uint8]) -> Answer:
        draws = [np.random.default_rng(row) for row in observations]
        logits = [draw.normal(size=num_actions) for draw in draws]
        value = [draw.uniform(-0.8, 0.8) for draw in draws]
        shape = (len(draws), num_actions)
        return np.reshape(logits, shape).astype(np.float16), np.array(value, np.float32)

    return predict


def turn(engine: SelfPlay, predict: Predict, model_version: int = 1) -> list[GameColumns]:
    engine.backup(*predict(engine.select()), model_version)
    return engine.take_finished()


def play(engine: SelfPlay, predict: Predict, games: int) -> list[GameColumns]:
    finished: list[GameColumns] = []
    while len(finished) < games:
        finished += turn(engine, predict)
    return sorted(finished, key=lambda game: game.game_id)


def columns(game: GameColumns) -> dict[str, NDArray[Any]]:
    return {name: getattr(game, name) for name in DTYPES}


def assert_same(left: GameColumns, right: GameColumns) -> None:
    for name in DTYPES:
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), name)
    assert left.result == right.result


def test_half_and_single_precision_agree() -> None:
    config = SearchConfig(num_simulations=16)
    half = predictor("tic_tac_toe")

    def single(observations: NDArray[np.uint8]) -> Any:
        logits, value = half(observations)
        return logits.astype(np.float32), value

    left = play(SelfPlay("tic_tac_toe", 3, config, 1), half, 5)
    right = play(SelfPlay("tic_tac_toe", 3, config, 1), single, 5)
    for one, two in zip(left, right, strict=True):
        assert_same(one, two)


def test_a_game_goes_through_python_and_back_unchanged() -> None:
    engine = SelfPlay("connect_four", 2, SearchConfig(num_simulations=10), 1)
    predict = predictor("connect_four")
    while len(engine.unfinished()) < 2:
        turn(engine, predict, 5)
    saved = engine.unfinished()
    assert all(game.result is None for game in saved)
    other = SelfPlay("connect_four", 1, SearchConfig(num_simulations=10), 2)
    assert [other.adopt(GameColumns(**columns(game))) for game in saved] == [0, 1]
    for before, after in zip(saved, other.unfinished(), strict=True):
        assert_same(before, after)


def test_adopt_refuses_what_does_not_replay() -> None:
    engine = SelfPlay("tic_tac_toe", 1, SearchConfig(num_simulations=4), 1)
    predict = predictor("tic_tac_toe")
    while not (games := engine.unfinished()):
        turn(engine, predict)
    good = columns(games[0])
    with pytest.raises(ValueError, match="action 9 at ply 0"):
        engine.adopt(GameColumns(**{**good, "action": np.full_like(good["action"], 9)}))
    with pytest.raises(ValueError, match="unfinished"):
        engine.adopt(GameColumns(**good, result=1))
    with pytest.raises(ValueError, match="priors"):
        GameColumns(**{**good, "priors": good["priors"][1:]})
    with pytest.raises(ValueError, match="offsets"):
        GameColumns(**{**good, "offsets": good["offsets"][1:]})


def test_columns_outlive_their_engine() -> None:
    engine = SelfPlay("tic_tac_toe", 1, SearchConfig(num_simulations=3), 1)
    observations = engine.select()
    actions = play(engine, predictor("tic_tac_toe"), 1)[0].action
    del engine
    assert observations.shape[1] == 4
    assert State("tic_tac_toe", actions.tolist()).is_terminal


def test_threads_may_share_an_engine() -> None:
    engine = SelfPlay("tic_tac_toe", 16, SearchConfig(num_simulations=10), 1)
    predict = predictor("tic_tac_toe")
    stop = threading.Event()
    seen: list[int] = []

    def look() -> None:
        while not stop.is_set():
            seen.append(engine.statistics.nodes + len(engine.unfinished()))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        finished = play(engine, predict, 40)
    finally:
        stop.set()
        watcher.join()
    assert len(finished) >= 40
    assert seen


def test_nothing_to_ask_is_no_rows() -> None:
    engine = SelfPlay("tic_tac_toe", 4, SearchConfig(num_simulations=6), 1)
    observations = engine.select()
    row_bytes = game_spec("tic_tac_toe").observation_bytes
    assert (observations.dtype, observations.shape) == (np.uint8, (4, row_bytes))
    engine.set_accepting(False)
    while len(engine.select()) > 0:
        turn(engine, predictor("tic_tac_toe"))
    assert engine.select().shape == (0, row_bytes)


def test_a_match_names_what_it_does_not_take() -> None:
    match = Match("connect_four", [[3], [0, 6]], SearchConfig(), 1)
    assert match.select(0).dtype == np.uint8
    with pytest.raises(ValueError, match="side must be 0 or 1"):
        match.select(2)
    with pytest.raises(ValueError, match="ply 0"):
        Match("connect_four", [[7]], SearchConfig(), 1)


def test_results_of_a_search_are_arrays_over_the_legal_actions() -> None:
    positions = [[], [0, 1, 0, 1, 0, 1, 0]]  # the second is over
    search = Search("connect_four", positions, SearchConfig(num_simulations=20), 5, noise=True)
    predict = predictor("connect_four")
    while not search.done:
        search.backup(*predict(search.select()), 1)
    result, over = search.results()
    assert result.actions.tolist() == list(range(7))
    for column, dtype in (
        (result.actions, np.int16),
        (result.visit_counts, np.int32),
        (result.priors, np.float32),
        (result.q_values, np.float32),
    ):
        assert (column.dtype, column.shape) == (dtype, (7,))
    assert len(result.principal_variations) == 7
    assert over.actions.size == 0
    assert (over.best_action, over.root_value, over.simulations) == (-1, -1.0, 0)


@given(
    actions=st.lists(st.integers(0, 6), max_size=12),
    stdevs=st.sampled_from([0.0, 0.5, 5.0, 1e9]),
    simulations=st.integers(1, 60),
)
def test_the_best_action_has_its_share_of_the_visits(
    actions: list[int], stdevs: float, simulations: int
) -> None:
    state, played = State("connect_four", []), []
    for action in actions:
        if not state.is_terminal and action in state.legal_actions():
            state.apply(action)
            played.append(action)
    assume(not state.is_terminal)
    config = SearchConfig(num_simulations=simulations, lcb_stdevs=stdevs)
    search = Search("connect_four", [played], config, 1)
    predict = predictor("connect_four")
    while not search.done:
        search.backup(*predict(search.select()), 1)
    (result,) = search.results()
    best = result.actions.tolist().index(result.best_action)
    counts = result.visit_counts
    assert counts[best] >= (0.15 if stdevs else 1.0) * counts.max()


def test_a_side_of_a_match_may_be_played_from_outside() -> None:
    match = Match("connect_four", [[3]], SearchConfig(num_simulations=12, temperature=0), 1)
    predict = predictor("connect_four")
    while not match.done:
        observations = match.select(0)
        if len(observations) > 0:
            match.backup(0, *predict(observations), 20)
        for game_id, actions in match.games_to_move(1):
            assert isinstance(actions, list)
            if len(actions) > 2:
                match.resign(game_id)
            else:
                match.play(game_id, State("connect_four", actions).legal_actions()[0])
    games = sorted(match.take_finished(), key=lambda game: game.game_id)
    assert [(game.reason, game.result) for game in games] == [("resign", 1), ("resign", -1)]
    with pytest.raises(ValueError, match="game 0 is not in play"):
        match.play(0, 0)
    with pytest.raises(ValueError, match="side must be 0 or 1"):
        match.games_to_move(2)
