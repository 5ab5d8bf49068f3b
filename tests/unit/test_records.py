"""Game records: what is written is read again, and what older versions wrote too."""

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from uuid import RFC_4122

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerofleet.records import GameRecord, game_uid_of, new_game_uid
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


TIMES = st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC))
BITS = st.integers(0, (1 << 74) - 1)


@given(TIMES, BITS)
def test_a_games_uid_is_a_uuid_of_version_7_with_its_time_and_all_random_bits(
    began_at: datetime, bits: int
) -> None:
    uid = game_uid_of(began_at, bits)
    assert (uid.version, uid.variant) == (7, RFC_4122)
    milliseconds = timedelta(milliseconds=uid.int >> 80)
    assert timedelta(0) <= began_at - datetime(1970, 1, 1, tzinfo=UTC) - milliseconds
    assert began_at - datetime(1970, 1, 1, tzinfo=UTC) - milliseconds < timedelta(milliseconds=1)
    assert (uid.int >> 64 & 0xFFF) << 62 | uid.int & (1 << 62) - 1 == bits


@given(TIMES, TIMES, BITS, BITS)
def test_games_that_begin_later_have_greater_uids(
    one: datetime, other: datetime, bits: int, other_bits: int
) -> None:
    earlier, later = sorted((one, other))
    if later - earlier >= timedelta(milliseconds=1):
        assert game_uid_of(earlier, bits) < game_uid_of(later, other_bits)


@given(TIMES, BITS, BITS)
def test_uids_of_one_moment_differ_in_their_random_bits(
    began_at: datetime, bits: int, other_bits: int
) -> None:
    assert (game_uid_of(began_at, bits) == game_uid_of(began_at, other_bits)) == (
        bits == other_bits
    )


def test_ten_thousand_games_that_begin_together_have_as_many_uids() -> None:
    began_at = datetime(2026, 1, 1, tzinfo=UTC)
    assert len({new_game_uid(began_at) for _ in range(10_000)}) == 10_000


def test_a_time_before_1970_is_no_uids() -> None:
    with pytest.raises(ValueError, match=r"1969-12-31 .* has no UUIDv7"):
        game_uid_of(datetime(1969, 12, 31, tzinfo=UTC), 0)
