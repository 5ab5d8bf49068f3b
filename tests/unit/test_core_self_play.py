"""Self-play in the core, as Python sees it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from zerofleet_core import (
    GameColumns,
    SearchConfig,
    SelfPlay,
    State,
    game_spec,
)

COLUMNS = (
    "to_play",
    "best_child_value",
    "policy_weights",
    "actions",
    "model_version",
    "root_value",
    "network_value",
    "simulations",
    "full_search",
    "offsets",
    "legal_actions",
    "visit_counts",
    "priors",
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


def turn(engine: SelfPlay, predict: Predict, model_version: int = 1) -> list[GameColumns]:
    engine.backup(*predict(engine.select()), model_version)
    return engine.take_finished()


def play(engine: SelfPlay, predict: Predict, games: int) -> list[GameColumns]:
    finished: list[GameColumns] = []
    while len(finished) < games:
        finished += turn(engine, predict)
    return sorted(finished, key=lambda game: game.game_id)


def columns(game: GameColumns) -> dict[str, NDArray[Any]]:
    return {name: getattr(game, name) for name in COLUMNS}


def assert_same(left: GameColumns, right: GameColumns) -> None:
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), name)
    assert left.result == right.result


def assert_complete(game: GameColumns, name: str, config: SearchConfig) -> None:
    """A record replays, and its columns agree with each other and with the search's promises."""
    state = State(name)
    for ply, action in enumerate(game.actions.tolist()):
        start, end = game.offsets[ply : ply + 2]
        assert game.legal_actions[start:end].tolist() == state.legal_actions()
        visits = game.visit_counts[start:end]
        assert visits.sum() == game.simulations[ply] >= config.num_simulations
        assert visits[game.legal_actions[start:end].tolist().index(action)] > 0
        assert game.priors[start:end].sum() == pytest.approx(1, abs=2e-3)
        state.apply(action)
    assert state.is_terminal
    assert state.result == game.result
    assert game.reason == "rules"
    assert len(game.offsets) == len(game.actions) + 1
    assert np.abs(game.root_value).max() <= 1
    assert np.abs(game.network_value).max() <= 1
    assert game.full_search.all()


@settings(max_examples=20, deadline=None)
@given(
    game=st.sampled_from(["tic_tac_toe", "connect_four"]),
    games=st.integers(1, 6),
    seed=st.integers(0, 2**64 - 1),
    num_simulations=st.integers(1, 30),
    fpu=st.sampled_from(["zero", "reduction"]),
    reuse_tree=st.booleans(),
    cache_positions=st.sampled_from([0, 3, 5000]),
    random_symmetry=st.booleans(),
    temperature=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_every_record_is_complete(game: str, games: int, seed: int, **knobs: Any) -> None:
    config = SearchConfig(**knobs)
    engine = SelfPlay(game, games, config, seed)
    finished = play(engine, predictor(game), 2)
    for record in finished:
        assert_complete(record, game, config)
        if not config.reuse_tree:
            assert (record.simulations == config.num_simulations).all()
    statistics = engine.statistics
    assert statistics.games_finished == len(finished)
    assert statistics.positions_evaluated <= statistics.simulations + statistics.plies + games
    assert statistics.nodes <= games * (config.num_simulations + 1)
    if config.cache_positions == 0:
        assert statistics.cache_hits == 0


@pytest.mark.parametrize("game", ["tic_tac_toe", "connect_four"])
def test_one_seed_gives_the_same_games(game: str) -> None:
    config = SearchConfig(num_simulations=16)
    first, second = (play(SelfPlay(game, 4, config, 9), predictor(game), 6) for _ in range(2))
    for left, right in zip(first, second, strict=True):
        assert_same(left, right)
    other = play(SelfPlay(game, 4, config, 10), predictor(game), 6)
    assert any(
        left.actions.tolist() != right.actions.tolist()
        for left, right in zip(first, other, strict=True)
    )


def test_games_do_not_depend_on_their_neighbours() -> None:
    config = SearchConfig(num_simulations=16, cache_positions=0)
    alone = {
        game.game_id: game
        for game in play(SelfPlay("connect_four", 1, config, 3), predictor("connect_four"), 4)
    }
    together = play(SelfPlay("connect_four", 4, config, 3), predictor("connect_four"), 6)
    shared = [game for game in together if game.game_id in alone]
    assert shared
    for game in shared:
        assert_same(game, alone[game.game_id])


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


def test_kept_visits_count() -> None:
    predict = predictor("connect_four")
    counts: dict[bool, float] = {}
    for reuse in (False, True):
        config = SearchConfig(num_simulations=60, reuse_tree=reuse, cache_positions=0)
        engine = SelfPlay("connect_four", 4, config, 1)
        play(engine, predict, 6)
        counts[reuse] = engine.statistics.simulations / engine.statistics.plies
    assert counts[False] >= 60
    assert counts[True] < 0.9 * counts[False]


def test_cache_answers_and_is_emptied_by_a_new_model() -> None:
    config = SearchConfig(num_simulations=8, random_symmetry=False, dirichlet_fraction=0.0)
    engine = SelfPlay("tic_tac_toe", 1, config, 1)
    start = State("tic_tac_toe").observation()
    predict = predictor("tic_tac_toe")

    def starts_asked(model_version: int) -> int:
        asked = 0
        finished = 0
        while finished < 5:
            observations = engine.select()
            asked += sum(row.tobytes() == start.tobytes() for row in observations)
            engine.backup(*predict(observations), model_version)
            finished += len(engine.take_finished())
        return asked

    assert starts_asked(1) == 1
    assert starts_asked(1) == 0
    assert starts_asked(2) == 1
    assert engine.statistics.cache_hits > 0


def test_every_select_asks_even_when_all_is_known() -> None:
    engine = SelfPlay("tic_tac_toe", 3, SearchConfig(num_simulations=10), 1)
    predict = predictor("tic_tac_toe")
    for _ in range(800):
        observations = engine.select()
        assert len(observations) == 3
        engine.backup(*predict(observations), 1)
    assert engine.statistics.cache_hits > engine.statistics.positions_evaluated


def test_model_versions_are_of_the_latest_answer() -> None:
    config = SearchConfig(num_simulations=6, cache_positions=0, reuse_tree=False)
    engine = SelfPlay("connect_four", 2, config, 1)
    predict = predictor("connect_four")
    versions: list[int] = []
    version = 0
    while not versions:
        version += 1
        for game in turn(engine, predict, version):
            versions = game.model_version.tolist()
    assert versions == sorted(versions)
    assert versions[0] >= 6
    assert version - 1 <= versions[-1] <= version  # the last visits may need no network
    assert len(set(versions)) == len(versions)


def test_saved_games_go_on_elsewhere() -> None:
    config = SearchConfig(num_simulations=10)
    predict = predictor("connect_four")
    engine = SelfPlay("connect_four", 4, config, 1)
    plies = 0
    while len(engine.unfinished()) < 4 or plies < 12:
        turn(engine, predict, 5)
        plies = engine.statistics.plies
    saved = engine.unfinished()
    assert sum(len(game.actions) for game in saved) == plies
    assert all(game.result is None for game in saved)

    other = SelfPlay("connect_four", 2, config, 2)
    ids = [other.adopt(GameColumns(**columns(game))) for game in saved]
    assert ids == [0, 1, 2, 3]
    for before, after in zip(saved, other.unfinished(), strict=True):
        assert_same(before, after)
    finished: dict[int, GameColumns] = {}
    while not set(ids) <= set(finished):
        finished.update({game.game_id: game for game in turn(other, predict, 6)})
    for game_id, before in zip(ids, saved, strict=True):
        game = finished[game_id]
        assert_complete(game, "connect_four", config)
        known = len(before.actions)
        assert game.actions[:known].tolist() == before.actions.tolist()
        assert game.root_value[:known].tolist() == before.root_value.tolist()
        assert set(game.model_version[:known].tolist()) == {5}
        assert set(game.model_version[known:].tolist()) == {6}


def test_saving_between_select_and_backup_loses_no_ply() -> None:
    engine = SelfPlay("tic_tac_toe", 3, SearchConfig(num_simulations=4), 1)
    predict = predictor("tic_tac_toe")
    total = 0
    for _ in range(60):
        observations = engine.select()
        finished = engine.take_finished()
        total += sum(len(game.actions) for game in finished)
        live = sum(len(game.actions) for game in engine.unfinished())
        assert total + live == engine.statistics.plies
        engine.backup(*predict(observations), 1)


def test_adopt_refuses_what_does_not_replay() -> None:
    engine = SelfPlay("tic_tac_toe", 1, SearchConfig(num_simulations=4), 1)
    predict = predictor("tic_tac_toe")
    while not (games := engine.unfinished()):
        turn(engine, predict)
    good = columns(games[0])
    with pytest.raises(ValueError, match="action 9 at ply 0"):
        engine.adopt(GameColumns(**{**good, "actions": np.full_like(good["actions"], 9)}))
    with pytest.raises(ValueError, match="unfinished"):
        engine.adopt(GameColumns(**good, result=1))
    with pytest.raises(ValueError, match="priors"):
        GameColumns(**{**good, "priors": good["priors"][1:]})
    with pytest.raises(ValueError, match="offsets"):
        GameColumns(**{**good, "offsets": good["offsets"][1:]})


def test_draining() -> None:
    engine = SelfPlay("tic_tac_toe", 4, SearchConfig(num_simulations=6), 1)
    predict = predictor("tic_tac_toe")
    for _ in range(5):
        turn(engine, predict)
    engine.set_accepting(False)
    finished = 0
    while len(observations := engine.select()) > 0:
        engine.backup(*predict(observations), 1)
        finished += len(engine.take_finished())
    finished += len(engine.take_finished())
    assert finished == 4
    assert engine.unfinished() == []
    assert engine.select().shape == (0, game_spec("tic_tac_toe").observation_bytes)
    engine.set_accepting(True)
    assert len(engine.select()) == 4


def test_observations_are_the_same_until_answered() -> None:
    engine = SelfPlay("connect_four", 5, SearchConfig(), 1)
    first = engine.select().copy()
    assert first.dtype == np.uint8
    np.testing.assert_array_equal(engine.select(), first)


def test_columns_outlive_their_engine() -> None:
    engine = SelfPlay("tic_tac_toe", 1, SearchConfig(num_simulations=3), 1)
    observations = engine.select()
    actions = play(engine, predictor("tic_tac_toe"), 1)[0].actions
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
