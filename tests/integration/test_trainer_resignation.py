"""The trainer learns from games that were given up, and computes v_resign."""

from __future__ import annotations

import numpy as np
import pytest
from zerofleet_core import State

from services.trainer.bucket import TrainBucket
from services.trainer.learner import Learner
from services.trainer.overfit import OverfitWatch
from services.trainer.resignation import Calibrator
from services.trainer.state import Training
from services.trainer.window import Window
from zerofleet.config import ResignSection, run_from_values
from zerofleet.database import Database, Submission
from zerofleet.games import spec
from zerofleet.testing.records import changed, random_record

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
        result=-1,  # after four plies the first player is to move, and gives up
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


def test_the_threshold_is_written_down(database: Database) -> None:
    settings = ResignSection(enabled=True, min_games=5)
    calibrator = Calibrator("test", settings, database)
    calibrator.calibrate()
    assert not calibrator.due()
    assert database.resign_threshold("test") is None
    [row] = database._rows("SELECT games, threshold FROM resign_thresholds")
    assert tuple(row) == (0, None)
