"""The train bucket: never more samples than new positions paid for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.trainer.bucket import TrainBucket
from services.trainer.trainer import check_sizes
from zerofleet.config import TrainerSection
from zerofleet.errors import ConfigError


def test_positions_pay_for_samples() -> None:
    bucket = TrainBucket(samples_per_position=4.0)
    assert not bucket.holds(256)
    assert bucket.missing_positions(256) == 64
    bucket.pay(63)
    assert not bucket.holds(256)
    assert bucket.missing_positions(256) == 1
    bucket.pay(1)
    assert bucket.holds(256)
    assert bucket.missing_positions(256) == 0
    bucket.draw(256)
    assert bucket.samples == 0
    assert (bucket.received, bucket.drawn, bucket.reuse) == (64, 256, 4.0)


def test_missing_positions_are_just_enough() -> None:
    bucket = TrainBucket(samples_per_position=0.3, samples=5.5)
    missing = bucket.missing_positions(256)
    bucket.pay(missing - 1)
    assert not bucket.holds(256)
    bucket.pay(1)
    assert bucket.holds(256)


def test_what_left_the_window_is_not_owed_any_more() -> None:
    bucket = TrainBucket(samples_per_position=4.0)
    bucket.pay(1_000)
    bucket.limit(600, 1)
    assert bucket.samples == 2_400
    bucket.limit(700, 1)
    assert bucket.samples == 2_400


def test_sizes_with_which_training_could_never_start() -> None:
    check_sizes(TrainerSection())
    with pytest.raises(ConfigError, match="training could never start"):
        check_sizes(TrainerSection(min_positions=50, window_positions=49))
    with pytest.raises(ConfigError, match="pay for 50 samples at most"):
        check_sizes(TrainerSection(min_positions=1, window_positions=100, samples_per_position=0.5))


@given(st.lists(st.integers(0, 500), max_size=30), st.floats(0.1, 10), st.integers(1, 512))
def test_samples_drawn_never_exceed_what_was_paid(
    arrivals: list[int], samples_per_position: float, batch_size: int
) -> None:
    bucket = TrainBucket(samples_per_position)
    drawn = 0
    for positions in arrivals:
        bucket.pay(positions)
        while bucket.holds(batch_size):
            bucket.draw(batch_size)
            drawn += batch_size
    assert drawn <= sum(arrivals) * samples_per_position + 1e-6
    assert drawn > sum(arrivals) * samples_per_position - batch_size - 1e-6


def test_a_slower_pace_counts_for_what_is_paid_already() -> None:
    bucket = TrainBucket(samples_per_position=4.0)
    bucket.pay(100)
    bucket.slow(0.25)
    assert (bucket.samples, bucket.rate) == (100, 1.0)
    assert bucket.missing_positions(160) == 60
    bucket.pay(60)
    assert bucket.holds(160)
    bucket.limit(50, 1)
    assert bucket.samples == 50
    bucket.slow(0.25)  # said twice, meant once
    assert bucket.samples == 50
    bucket.full_pace()
    assert bucket.samples == 50
    bucket.pay(10)
    assert bucket.samples == 90
    assert bucket.received == 170
