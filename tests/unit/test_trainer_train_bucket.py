"""The train bucket: never more samples than were paid for; and how fast they could be drawn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerofleet.config import TrainerSection, check_sizes
from zerofleet.errors import ConfigError
from zerofleet.fleet.figures import DemandFigures
from zerofleet.learning.window import Demand, TrainBucket


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


def test_positions_pay_for_less_while_the_trainer_is_behind() -> None:
    bucket = TrainBucket(samples_per_position=4.0, least_samples_per_position=3.0, behind=100)
    bucket.pay(99)
    bucket.pay(10)
    assert bucket.samples == 4 * 109
    bucket.pay(10)
    assert bucket.samples == 4 * 109 + 3 * 10
    bucket.slow(0.5)
    bucket.pay(10)
    assert bucket.samples == (4 * 109 + 3 * 10) / 2 + 3 * 10 / 2
    bucket.draw(256)
    bucket.pay(10)
    assert bucket.samples == (4 * 109 + 3 * 10) / 2 + 3 * 10 / 2 - 256 + 4 * 10 / 2


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
    check_sizes(TrainerSection(min_positions=420, window_games=10), 42)
    with pytest.raises(ConfigError, match="window_positions = 49: training could never start"):
        check_sizes(TrainerSection(min_positions=50, window_positions=49), 42)
    with pytest.raises(ConfigError, match="window_games = 10 have 420 at most"):
        check_sizes(TrainerSection(min_positions=421, window_games=10), 42)
    few = TrainerSection(min_positions=1, window_positions=100, samples_per_position=0.5)
    with pytest.raises(ConfigError, match="pay for 50 samples at most"):
        check_sizes(few, 42)


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


class Loop:
    """A trainer's loop: 1,000 samples a second while it works, one position a round coming in."""

    def __init__(self) -> None:
        self.now = 0.0
        self.bucket = TrainBucket(samples_per_position=4.0)
        self.demand = Demand(self.bucket, lambda: self.now)

    def round(self, *, arrived: int, work: float, wait: float) -> None:
        self.bucket.pay(arrived)
        self.demand.turn(hungry=False)
        self.bucket.draw(round(1_000 * work))
        self.now += work
        self.demand.turn(hungry=wait > 0)
        self.now += wait


def test_knows_nothing_before_the_first_batch() -> None:
    loop = Loop()
    assert loop.demand.figures() == DemandFigures(reuse_target=4.0)
    for _ in range(100):
        loop.round(arrived=1, work=0.0, wait=0.5)
    figures = loop.demand.figures()
    assert figures.samples_per_second is None
    assert figures.wait_share == pytest.approx(1.0)


def test_a_trainer_that_waits_a_third_of_its_time_could_draw_half_as_much_again() -> None:
    loop = Loop()
    for _ in range(600):
        loop.round(arrived=166, work=0.664, wait=0.332)
    figures = loop.demand.figures()
    assert figures.samples_per_second == pytest.approx(1_000, rel=0.01)
    assert figures.wait_share == pytest.approx(1 / 3, rel=0.02)
    assert figures.reuse == pytest.approx(4.0, rel=0.02)
    unwaited = figures.reuse / (1 - figures.wait_share)
    assert unwaited == pytest.approx(figures.samples_per_second / (166 / 0.996), rel=0.02)


def test_one_that_is_behind_draws_less_than_is_paid_for() -> None:
    loop = Loop()
    for _ in range(600):
        loop.round(arrived=500, work=1.0, wait=0.0)
    figures = loop.demand.figures()
    assert figures.wait_share == 0.0
    assert figures.reuse == pytest.approx(2.0, rel=0.02)
    assert figures.samples_per_second == pytest.approx(1_000, rel=0.01)


def test_only_the_last_ten_minutes_count_and_a_speed_is_not_forgotten_while_nothing_comes() -> None:
    loop = Loop()
    for _ in range(300):
        loop.round(arrived=250, work=1.0, wait=0.0)
    for _ in range(1_300):
        loop.round(arrived=0, work=0.0, wait=0.5)
    figures = loop.demand.figures()
    assert figures.wait_share == pytest.approx(1.0, abs=0.01)
    assert figures.reuse is None
    assert figures.samples_per_second == pytest.approx(1_000, rel=0.1)


def test_a_wait_that_goes_on_counts_already() -> None:
    loop = Loop()
    loop.round(arrived=250, work=1.0, wait=0.0)
    loop.demand.turn(hungry=True)
    loop.now += 3.0
    assert loop.demand.figures().wait_share == pytest.approx(0.75)


def test_the_target_is_what_a_position_pays_for_now() -> None:
    loop = Loop()
    loop.bucket.slow(0.25)
    assert loop.demand.figures().reuse_target == 1.0
