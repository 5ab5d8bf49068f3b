"""The window on a real database: it grows, and a trainer that starts over finds the same one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.random_records import changed, random_record
from zerofleet.config import RunConfig, run_from_values
from zerofleet.database import Database, Submission, add_to_buffer
from zerofleet.database.window_games import OptionalColumn, WindowPage
from zerofleet.errors import StoreUnavailableError
from zerofleet.games import spec
from zerofleet.learning import window as module
from zerofleet.learning.learner import Learner
from zerofleet.learning.overfit import OverfitWatch
from zerofleet.learning.schedule import window_limit
from zerofleet.learning.window import TrainBucket, Training, Window
from zerofleet.records import GameRecord, is_held_out

pytestmark = pytest.mark.slow


def a_run(**trainer: object) -> RunConfig:
    return run_from_values({
        "name": "test",
        "preset": "plain",
        "game": {"name": "tic_tac_toe"},
        "network": {"blocks": 0, "channels": 2},
        "trainer": {
            "growing_window": True,
            "growing_window_positions": 60,
            "held_out_share": 0.2,
            **trainer,
        },
    })  # fmt: skip


def training(run: RunConfig) -> Training:
    bucket = TrainBucket(run.trainer.samples_per_position)
    return Training(Learner(spec("tic_tac_toe"), run), bucket, OverfitWatch(run.overfit))


def submit(database: Database, seeds: range) -> list[GameRecord]:
    """One transaction for each few games; about half of the plies are positions to train on."""
    games = [random_record(seed) for seed in seeds]
    games = [
        changed(
            game,
            visit_counts=game.columns.visit_counts + np.int32(1),
            policy_weights=game.columns.visit_counts + np.int32(1),
        )
        for game in games
    ]
    for first in range(0, len(games), 3):
        database.submit_games("test", "w", [Submission(game) for game in games[first : first + 3]])
    return games


def read(window: Window) -> None:
    while window.read_page():
        pass


def same(first: Window, second: Window) -> bool:
    drawn = [window.sample(64, seed=5) for window in (first, second)]
    return all(np.array_equal(*columns) for columns in zip(*drawn, strict=True))


def test_the_window_grows_with_all_positions_so_far(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE_GAMES", 7)
    run = a_run()
    ours = training(run)
    window = Window(run, database, ours)
    for seeds in (range(10), range(10, 40), range(40, 100)):
        submit(database, seeds)
        read(window)
        received = ours.bucket.received
        assert window.trained.total_positions == received
        assert window.limit == window_limit(run.trainer, received)
        room = window.limit - window.trained.positions
        assert 0 <= room < 9 or window.trained.positions == received
    assert window.trained.positions < ours.bucket.received / 2


def test_it_is_the_same_after_a_restart(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that comes from a checkpoint in the middle, and reads other pages."""
    run = a_run()
    live = training(run)
    window = Window(run, database, live)
    saved: list[tuple[int, float, int, int]] = []
    for first in range(0, 120, 12):
        submit(database, range(first, first + 12))
        monkeypatch.setattr(module, "PAGE_GAMES", 1 + first % 5)
        read(window)
        bucket = live.bucket
        saved.append((live.paid_tx, bucket.samples, bucket.received, bucket.drawn))
    monkeypatch.setattr(module, "PAGE_GAMES", 11)
    for paid_tx, samples, received, drawn in (saved[0], saved[4], saved[-1], (0, 0.0, 0, 0)):
        again = training(run)
        again.paid_tx = paid_tx
        again.bucket.samples, again.bucket.received = samples, received
        again.bucket.drawn = drawn
        restarted = Window(run, database, again)
        read(restarted)
        assert again.bucket.received == live.bucket.received
        assert restarted.limit == window.limit
        assert restarted.trained.positions == window.trained.positions
        assert restarted.trained.games == window.trained.games
        assert same(window, restarted)


def test_a_window_that_does_not_grow_is_bounded_by_memory(database: Database) -> None:
    run = a_run(growing_window=False, window_positions=50)
    window = Window(run, database, training(run))
    submit(database, range(60))
    read(window)
    assert window.limit == 50
    assert window.trained.positions <= 50


def test_held_out_games_reach_as_far_back_as_the_window(database: Database) -> None:
    """Games of older players are harder to predict: that would look like overfitting."""
    submit(database, range(150))
    for size, reach in ((10_000, 1.0), (150, 0.5)):
        settings = a_run(growing_window=False, window_positions=size).model_dump()
        run = run_from_values(settings | {"overfit": {"min_positions": 4}})
        window = Window(run, database, training(run))
        read(window)
        share = window.held_out.positions / window.held_out.total_positions
        wanted = window.trained.positions / window.trained.total_positions
        assert (wanted == 1.0) == (reach == 1.0)
        assert wanted <= reach
        assert abs(share - wanted) < 0.1
        run = run_from_values(settings | {"overfit": {"min_positions": 10_000}})
        window = Window(run, database, training(run))
        read(window)
        assert window.held_out.positions == window.held_out.total_positions


def test_what_is_measured_says_where_it_comes_from(database: Database) -> None:
    run = a_run(growing_window=False)
    window = Window(run, database, training(run))
    assert window.trace("train", 8, 1) is None
    games = submit(database, range(60))
    read(window)
    for split, held_out in (("train", False), ("held_out", True)):
        ours = [
            game
            for game in games
            if is_held_out(game.game_uid, 0.2) == held_out and game.columns.full_search.any()
        ]
        traced = window.trace(split, 500, 1)
        assert traced is not None
        assert set(traced.game_age.tolist()) == set(range(len(ours)))
        assert set(traced.game_length.tolist()) == {game.length for game in ours}
        assert (traced.ply < traced.game_length).all()
        positions = sum(int(game.columns.full_search.sum()) for game in ours)
        distinct = len({row.tobytes() for row in traced.batch[0]})
        assert distinct <= positions  # as they were played: no symmetry makes more of them


def test_training_samples_are_turned_only_if_the_run_file_says_so(database: Database) -> None:
    submit(database, range(3))
    settings: dict[str, object] = {"growing_window": False, "opponent_policy_weight": 0.15}
    turned, still = (a_run(augment=augment, **settings) for augment in (True, False))
    windows = [Window(run, database, training(run)) for run in (turned, still)]
    kinds: list[int] = []
    for window in windows:
        read(window)
        observations, policies, _, auxiliary = window.sample(2_000, 1)
        assert auxiliary.shape == policies.shape  # the targets that the run file asks for
        kinds.append(len({row.tobytes() for row in observations}))
    assert kinds[0] > kinds[1]
    assert kinds[1] <= windows[1].trained.positions


def test_positions_are_drawn_as_the_run_file_says(database: Database) -> None:
    """Stored games are drawn like submitted ones; what they pay for stays the same."""
    submitted = {game.game_uid: game for game in submit(database, range(60))}
    games = [submitted[game.game_uid] for game in database.read_games("test", 0, 100).games]
    run = a_run(growing_window=False, value_lambda=0.9)
    window = Window(run, database, training(run))
    read(window)
    for held_out, buffer in ((False, window.trained), (True, window.held_out)):
        direct = module.empty_buffer(run, 1_000)
        for game in games:
            if is_held_out(game.game_uid, 0.2) == held_out:
                direct.add(
                    game.columns.action,
                    game.columns.result or 0,
                    game.columns.full_search,
                    game.columns.offsets,
                    game.columns.legal_actions,
                    game.columns.policy_weights,
                    root_value=game.columns.root_value,
                )
        drawn, expected = (each.sample_with_plies(200, 3) for each in (buffer, direct))
        for ours, theirs in zip(drawn, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_targets_that_the_network_names_are_read(database: Database) -> None:
    submitted = {game.game_uid: game for game in submit(database, range(30))}
    network = {"name": "python:tests.support.own_networks:Searching"}
    run = a_run(growing_window=False, held_out_share=0.0).model_dump() | {"network": network}
    window = Window(run_from_values(run), database, training(run_from_values(run)))
    read(window)
    targets = ["root_value", "search_surprise", "plies_to_end"]
    direct = module.empty_buffer(a_run(), 1_000, targets)
    columns = module.optional_columns(a_run(), targets)
    assert columns == ("root_value", "priors")
    for stored in database.read_games("test", 0, 100).games:
        assert stored.priors is None  # which only search_surprise needs
        game = submitted[stored.game_uid].columns
        add_to_buffer(direct, game)
    assert direct.positions == window.trained.positions > 50
    for ours, theirs in zip(
        window.sample(200, 3), direct.sample_with_auxiliary(200, 3), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert window.held_out.auxiliary_width == 0


def test_pages_are_smaller_where_searches_have_many_rows(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Postgres makes one value of a page: 512 games of Go on 19x19 would be too much for it."""
    monkeypatch.setattr(module, "PAGE_ENTRIES", 200)
    asked: list[int] = []
    read_games = database.read_games

    def counted(
        run: str, after_tx: int, limit: int, columns: tuple[OptionalColumn, ...]
    ) -> WindowPage:
        asked.append(limit)
        return read_games(run, after_tx, limit, columns)

    monkeypatch.setattr(database, "read_games", counted)
    run = a_run(growing_window=False)
    window = Window(run, database, training(run))
    games = submit(database, range(60))
    read(window)
    rows = sum(int(game.columns.offsets[-1]) for game in games) / len(games)
    assert asked[0] == 16
    assert all(200 / rows / 2 < limit < 2 * 200 / rows for limit in asked[1:])
    taught = sum(bool(game.columns.full_search.any()) for game in games)
    assert window.trained.total_games + window.held_out.total_games == taught > 50


def test_a_page_that_postgres_has_no_memory_for_becomes_smaller(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_games = database.read_games

    def few(run: str, after_tx: int, limit: int, columns: tuple[OptionalColumn, ...]) -> WindowPage:
        if limit > 3:
            raise StoreUnavailableError("out of memory")
        return read_games(run, after_tx, limit, columns)

    monkeypatch.setattr(database, "read_games", few)
    run = a_run(growing_window=False)
    window = Window(run, database, training(run))
    submit(database, range(12))
    for _ in range(3):
        with pytest.raises(StoreUnavailableError):
            window.read_page()
    assert window.read_page()
    assert window.trained.total_games + window.held_out.total_games > 0


def test_a_page_of_rejected_games_is_not_the_end(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE_GAMES", 6)
    run = a_run(growing_window=False)
    for game in submit(database, range(12)):
        database.reject_game("test", game.game_uid, "a test")
    submit(database, range(12, 30))
    window = Window(run, database, training(run))
    read(window)
    assert window.trained.total_games + window.held_out.total_games == 18
