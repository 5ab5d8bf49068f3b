"""The trainer learns from resigned games and computes v_resign."""

from __future__ import annotations

import numpy as np
import pytest
from structlog.testing import capture_logs
from zerofleet_core import State

from tests.support.random_records import changed, random_record
from zerofleet.config import ResignSection, run_from_values
from zerofleet.database import Database, Submission
from zerofleet.games import spec
from zerofleet.learning.learner import Learner
from zerofleet.learning.overfit import OverfitWatch
from zerofleet.learning.window import TrainBucket, Training, Window
from zerofleet.services.trainer.trainer import ResignThresholdWriter

pytestmark = pytest.mark.slow


def test_a_resigned_game_and_its_policy_targets_come_through(database: Database) -> None:
    run = run_from_values({
        "name": "test",
        "preset": "plain",
        "game": {"name": "tic_tac_toe"},
        "network": {"blocks": 0, "channels": 2},
        "trainer": {"held_out_share": 0.0, "augment": False},
    })  # fmt: skip
    cut = random_record(3, plies=4)
    resigned = changed(
        cut,
        result=-1,  # after four plies the first player is to move and resigns
        reason="resign",
        resign_threshold=-0.9,
        finished_at=cut.started_at,
        full_search=np.ones(4, np.bool_),
        visit_counts=np.ones(len(cut.columns.legal_actions), np.int32),
        policy_weights=np.arange(1, len(cut.columns.legal_actions) + 1, dtype=np.int32),
    )
    lie = changed(resigned, game_uid=random_record(4).game_uid, result=1)
    database.submit_games("test", "w", [Submission(resigned), Submission(lie)])
    bucket = TrainBucket(run.trainer.samples_per_position)
    training = Training(Learner(spec("tic_tac_toe"), run), bucket, OverfitWatch(run.overfit))
    window = Window(run, database, training)
    while window.read_page():
        pass
    assert (window.trained.games, window.rejected) == (1, 1)
    observations, policy_target, value_target = window.sample(64, 1)
    empty = np.frombuffer(State("tic_tac_toe").observation(), np.uint8)
    first = [i for i, row in enumerate(observations) if np.array_equal(row, empty)]
    assert first
    weights = np.arange(1, 10, dtype=np.float32)
    np.testing.assert_allclose(policy_target[first[0]], weights / weights.sum(), rtol=1e-6)
    assert value_target[first[0]] == -1
    assert set(value_target.tolist()) == {-1.0, 1.0}


def test_the_threshold_is_computed_at_once_and_then_every_so_many_seconds(
    database: Database,
) -> None:
    settings = ResignSection(enabled=True)
    writer = ResignThresholdWriter("test", settings, database)
    assert writer.due(1_000.0)
    writer.write(1_000.0)
    assert [writer.due(now) for now in (1_000.0, 1_029.9, 1_030.0)] == [False, False, True]
    assert database.last_v_resign("test") is None
    [row] = database._rows(
        "SELECT games, threshold, min_games, window_games FROM resign_thresholds"
    )
    assert tuple(row) == (0, None, 100, 1_000)


def test_it_is_never_computed_where_nobody_resigns(database: Database) -> None:
    assert not ResignThresholdWriter("test", ResignSection(enabled=False), database).due(1e9)


def test_a_new_threshold_is_said_once(database: Database) -> None:
    writer = ResignThresholdWriter("test", ResignSection(enabled=True), database)
    writer.write(0.0)
    thresholds: list[list[float | None]] = []
    for threshold in (-0.9, -0.9, -0.8, None):
        database._run(  # the threshold stays while there are few games
            "INSERT INTO resign_thresholds (run, threshold, games, would_resign, wrong, "
            "false_positive_share, min_games, window_games, highest) "
            "VALUES ('test', :threshold, 9, 5, 0, 0.05, 1, 9, -0.8)",
            threshold=threshold,
        )
        with capture_logs() as logs:
            writer.write(0.0)
        thresholds.append([log["threshold"] for log in logs])
    assert thresholds == [[-0.9], [], [-0.8], [None]]
