"""Outputs of the recorder: rows, Prometheus metrics, TensorBoard's curves."""

import sys
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import numpy as np
import pytest
import torch
from prometheus_client import CollectorRegistry

from zerofleet.config import run_from_values
from zerofleet.database import Database
from zerofleet.database.metrics import NEWEST_GAMES
from zerofleet.errors import ConfigError
from zerofleet.fleet.figures import Measurement, TrainerFigures
from zerofleet.learning.measurement import TracedBatch, measurement
from zerofleet.learning.overfit import OverfitWatch
from zerofleet.learning.window import TrainBucket, Training, Window
from zerofleet.models.folder import ModelFolder
from zerofleet.service import Pulse
from zerofleet.services.trainer.checkpoints import CheckpointFolder, TrainerStores
from zerofleet.services.trainer.recorder import Recorder, TensorBoard
from zerofleet.services.trainer.service import TrainerCollector
from zerofleet.waiting import Waits

RUN = run_from_values({"name": "test", "preset": "plain", "game": "tic_tac_toe"})


SAME_GAMES = """
INSERT INTO games (
    game_uid, run, kind, first_model, result, reason, length, worker, started_at, finished_at,
    moves, content_sha256, began_at
)
SELECT gen_random_uuid(), 'test', 'selfplay', 1, 1, 'rules', 5, 'w', now(), now(),
    'a1 b1 a2 b2 a3', sha256('x'), now()
FROM generate_series(1, %s)
"""


class PredictsHalf:
    """A learner that predicts half of every result, and in held-out games nothing."""

    step = 7
    learning_rate = 0.1
    gradient_norm: float | None = None
    auxiliary_losses: ClassVar = {"final_score": 0.5, "stones": 2.5}

    def measure(self, traced: TracedBatch) -> Measurement:
        results = traced.result
        value = torch.tensor((results / 2 * traced.game_age).tolist(), dtype=torch.float32)
        logits = torch.zeros(len(results), 2)
        return measurement(traced, logits, value, 1.0, torch.tensor(0.0))


def positions(split: str, size: int, seed: int) -> TracedBatch:
    """One position of each quarter but the second, every one of a game that was won."""
    return TracedBatch(
        (np.arange(3, dtype=np.uint8)[:, None], np.full((3, 2), 0.5, np.float32), np.ones(3, "f4")),
        ply=np.asarray([0, 5, 9], np.int32),
        game_length=np.full(3, 10, np.int32),
        game_age=np.full(3, split == "train", np.int64),  # how PredictsHalf knows them apart
        result=np.ones(3, np.float32),
    )


@pytest.fixture
def recorder(database: Database, tmp_path: Path) -> Recorder:
    part = SimpleNamespace(positions=3, games=3)
    window = SimpleNamespace(trace=positions, trained=part, held_out=part, limit=10)
    learner = cast("Any", PredictsHalf())
    training = Training(learner, TrainBucket(4.0), OverfitWatch(RUN.overfit))
    stores = TrainerStores(
        database,
        ModelFolder(tmp_path / "models", "test"),
        CheckpointFolder(tmp_path / "checkpoints"),
        Waits(),
        Event(),
        lambda: None,
    )
    epoch = database.acquire_fence("test", "trainer")
    return Recorder(RUN, stores, epoch, training, cast("Window", window), len)


def test_before_the_first_measurement_nothing_is_known(recorder: Recorder) -> None:
    assert recorder.by_name() == {"overfit": 0.0}


def test_prometheus_gets_the_value_by_stage_as_the_rows_have_it(
    recorder: Recorder, database: Database
) -> None:
    recorder.measure()
    measured = recorder.measured
    figures = TrainerFigures(train=measured["train"], held_out=measured["held_out"])
    registry = CollectorRegistry()
    registry.register(TrainerCollector(lambda: Pulse(7, "", figures)))
    columns = "split, calibration, final_score_loss, own_losses"
    rows = database._rows(f"SELECT {columns} FROM train_metrics")
    assert {row.split: row.final_score_loss for row in rows} == {"train": 0.5, "held_out": None}
    assert {row.split: row.own_losses for row in rows} == {
        "train": {"stones": 2.5},
        "held_out": None,
    }
    assert recorder.by_name()["final_score_loss"] == 0.5
    assert recorder.by_name()["own_stones_loss"] == 2.5
    stored_by_split = {row.split: row.calibration for row in rows}

    def exported(column: str, split: str, stage: int) -> float | None:
        name = f"zerofleet_trainer_value_by_stage_{column}"
        return registry.get_sample_value(name, {"split": split, "stage": str(stage)})

    for split, predicted in (("train", 0.5), ("held_out", 0.0)):
        stored = stored_by_split[split]
        assert [each["stage"] for each in stored] == [1, 3, 4]
        for each in stored:
            stage = each.pop("stage")
            assert each == {column: exported(column, split, stage) for column in each}
        assert exported("predicted", split, 1) == predicted
        assert exported("actual", split, 1) == 1.0
        assert exported("squared_error", split, 1) == (1.0 - predicted) ** 2
        assert exported("positions", split, 1) == 1.0
        assert exported("predicted", split, 2) is None
    names = {family.name for family in registry.collect()}
    assert "zerofleet_trainer_train_policy_loss" in names
    assert not [name for name in names if "stage_1" in name]
    assert recorder.by_name()["held_out_stage_4_actual"] == 1.0
    assert recorder.by_name()["train_policy_loss"] == measured["train"].policy_loss


def test_a_run_that_narrows_says_so_once(recorder: Recorder, database: Database) -> None:
    recorder._max_length = 42  # games of tic-tac-toe are too short to be judged
    recorder.measure()
    assert recorder.narrows is None
    for number in (1, NEWEST_GAMES):  # the first one is too old to count
        with database._transaction() as connection:
            connection.exec_driver_sql(SAME_GAMES, (number,))
    for _ in range(2):
        recorder.measure()
    assert (recorder.play.games, recorder.play.distinct_game_share) == (NEWEST_GAMES, 0.001)
    [event] = database.train_events("test")
    assert (event.event, event.step) == ("narrow_begins", 7)
    assert event.detail.startswith("0.1% of the last 1,000 games differ, less than 75%: raise")

    def told(differ: int) -> list[tuple[str, int]]:
        """Return the events after a look at this many different games of the thousand."""
        with database._transaction() as connection:
            connection.exec_driver_sql(
                "UPDATE games SET moves = CASE WHEN number < %s THEN number::text ELSE '0' END "
                "FROM (SELECT game_uid, row_number() OVER (ORDER BY tx DESC) AS number FROM games) "
                "AS numbered WHERE games.game_uid = numbered.game_uid",
                (differ,),
            )
        again.measure()
        assert again.play.distinct_game_share == differ / 1000
        return [(event.event, event.step) for event in database.train_events("test")]

    parts = recorder._stores, recorder._epoch, recorder._training, recorder._window
    again = Recorder(RUN, *parts, len)  # after a restart
    again._max_length = 42
    learner = cast("PredictsHalf", again._training.learner)
    events = [("narrow_begins", 7)]
    for differ in (1, 740, 840, 760):  # it wavers
        assert told(differ) == events
        assert again.narrows is not None
    events.append(("narrow_ends", 7))
    for differ in (850, 760, 840):
        assert told(differ) == events
        assert again.narrows is None
    assert told(740) == events  # this step has such an event already
    assert again.narrows is not None
    learner.step = 8
    assert told(740) == [*events, ("narrow_begins", 8)]


def test_what_a_crash_made_untrue_of_overfitting_is_told(
    recorder: Recorder, database: Database
) -> None:
    def told(*, active: bool) -> list[tuple[str, int]]:
        recorder._training.watch.active = active
        recorder._warn()
        return [(event.event, event.step) for event in database.train_events("test")]

    learner = cast("PredictsHalf", recorder._training.learner)
    begins = ("overfit_begins", learner.step)
    assert told(active=True) == told(active=True) == [begins]
    assert [each.warning for each in database.training_warnings("test")] == ["overfits"]
    # After a crash, from a checkpoint of before, when it does not overfit again.
    learner.step -= 1
    assert told(active=False) == [begins, ("overfit_ends", learner.step)]
    assert database.training_warnings("test") == []


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigError, match=r"pip install 'zerofleet\[tensorboard\]'"):
        TensorBoard(tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the package's own, at its import
def test_curves_are_written(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = tmp_path / "tensorboard"
    board = TensorBoard(folder)
    board.close()
    assert not folder.exists()
    for step, loss in ((5, 2.0), (10, 1.5)):
        figures = {"train_policy_loss": loss, "held_out_policy_loss": loss + 0.5, "overfit": 0.0}
        board.write(step, figures)
    board.close()
    events = EventAccumulator(str(folder)).Reload()
    assert sorted(events.Tags()["scalars"]) == [
        "policy_loss/held_out",
        "policy_loss/train",
        "trainer/overfit",
    ]
    points = [(point.step, point.value) for point in events.Scalars("policy_loss/train")]
    assert points == [(5, 2.0), (10, 1.5)]
