"""Game records: what is written is read again, and what older versions wrote too."""

import dataclasses
import json

import numpy as np
import pytest

from zerofleet.records import GameRecord
from zerofleet.testing.records import random_record, resigned_record


@pytest.mark.parametrize(
    "record",
    [
        random_record(1),
        random_record(2),
        random_record(3, plies=2),
        resigned_record(4, 3),
        dataclasses.replace(random_record(5), resign_threshold=-0.876543, plays_on=True),
    ],
)
def test_json_gives_the_same_record_back(record: GameRecord) -> None:
    back = GameRecord.from_json(json.loads(json.dumps(record.to_json())))
    for field in dataclasses.fields(record):
        value, again = getattr(record, field.name), getattr(back, field.name)
        if isinstance(value, np.ndarray):
            assert again.dtype == value.dtype, field.name
            assert again.tobytes() == value.tobytes(), field.name
        else:
            assert again == value, field.name
    assert back.digest() == record.digest()


def test_a_target_that_is_the_visit_counts_is_not_written_twice() -> None:
    assert random_record(2).to_json()["child_policy_weights"] is None
    assert random_record(3).to_json()["child_policy_weights"] is not None


def test_a_record_from_before_resignation_means_what_it_meant() -> None:
    record = random_record(1, plies=4)
    data = record.to_json()
    for name in ("best_child_values", "child_policy_weights", "resign_threshold", "plays_on"):
        del data[name]
    back = GameRecord.from_json(data)
    assert np.array_equal(back.best_child_values, record.root_values)
    assert np.array_equal(back.child_policy_weights, record.child_visit_counts)
    assert (back.resign_threshold, back.plays_on) == (None, False)


@pytest.mark.parametrize(
    "change",
    [
        {"reason": "resign"},
        {"resign_threshold": -0.5},
        {"plays_on": True},
        {"best_child_values": np.zeros(3, np.float32)},
        {"child_policy_weights": np.zeros(24, np.int32)},
    ],
)
def test_the_digest_is_of_everything(change: dict[str, object]) -> None:
    record = random_record(1, plies=3)
    assert dataclasses.replace(record, **change).digest() != record.digest()


def test_the_player_to_move_lost_a_resigned_game() -> None:
    assert resigned_record(1, 3).result == 1  # the second player gave up
    assert resigned_record(1, 4).result == -1
    with pytest.raises(ValueError, match="is over after"):
        resigned_record(1, 10)
