"""What the recorder's measurements become: figures by name, and metrics of Prometheus."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from prometheus_client import CollectorRegistry

from services.trainer.bucket import TrainBucket
from services.trainer.exporter import FigureCollector
from services.trainer.measurement import Measurement, TracedBatch, measurement
from services.trainer.overfit import OverfitWatch
from services.trainer.recorder import Recorder
from services.trainer.state import Training
from services.trainer.window import Window
from zerofleet.config import run_from_values

RUN = run_from_values({"name": "test", "preset": "plain", "game": "tic_tac_toe"})


class Rows:
    """A database that keeps what it gets."""

    def __init__(self) -> None:
        self.metrics: list[dict[str, Any]] = []

    def insert_train_metrics(
        self, run: str, step: int, split: str, values: Any, epoch: int
    ) -> None:
        self.metrics.append({**values, "split": split})

    def insert_train_event(self, run: str, step: int, event: str, detail: str, epoch: int) -> None:
        raise AssertionError(f"nothing happened that is worth the event {event}")


class PredictsHalf:
    """A learner that predicts half of every result, and in held-out games nothing."""

    step = 7
    learning_rate = 0.1
    gradient_norm: float | None = None

    def measure(self, traced: TracedBatch) -> Measurement:
        results = traced.batch[2]
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
    )


@pytest.fixture
def rows() -> Rows:
    return Rows()


@pytest.fixture
def recorder(rows: Rows) -> Recorder:
    part = SimpleNamespace(positions=3, games=3)
    window = SimpleNamespace(trace=positions, trained=part, held_out=part, limit=10)
    learner = cast("Any", PredictsHalf())
    training = Training(learner, TrainBucket(4.0), OverfitWatch(RUN.overfit))
    found = Recorder(RUN, training, cast("Window", window), len)
    found.open(rows, lambda call: call(), 1)
    return found


def test_before_the_first_measurement_nothing_is_known(recorder: Recorder) -> None:
    assert recorder.figures() == {"overfit": 0.0}


def test_prometheus_gets_the_value_by_stage_as_the_rows_have_it(
    recorder: Recorder, rows: Rows
) -> None:
    recorder.measure()
    registry = CollectorRegistry()
    registry.register(FigureCollector(lambda: (7, recorder.figures())))

    def exported(column: str, split: str, stage: int) -> float | None:
        name = f"zerofleet_trainer_value_by_stage_{column}"
        return registry.get_sample_value(name, {"split": split, "stage": str(stage)})

    for split, predicted in (("train", 0.5), ("held_out", 0.0)):
        [stored] = [row["calibration"] for row in rows.metrics if row["split"] == split]
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
