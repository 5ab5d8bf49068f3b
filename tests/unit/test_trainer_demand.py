"""How fast a trainer would be if it never waited: by a clock that the test moves."""

from __future__ import annotations

import pytest

from services.trainer.bucket import TrainBucket
from services.trainer.demand import Demand


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
    assert loop.demand.figures() == {"reuse_target": 4.0}
    for _ in range(100):
        loop.round(arrived=1, work=0.0, wait=0.5)
    figures = loop.demand.figures()
    assert "samples_per_second" not in figures
    assert figures["wait_share"] == pytest.approx(1.0)


def test_a_trainer_that_waits_a_third_of_its_time_could_draw_half_as_much_again() -> None:
    loop = Loop()
    for _ in range(600):
        loop.round(arrived=166, work=0.664, wait=0.332)
    figures = loop.demand.figures()
    assert figures["samples_per_second"] == pytest.approx(1_000, rel=0.01)
    assert figures["wait_share"] == pytest.approx(1 / 3, rel=0.02)
    assert figures["reuse"] == pytest.approx(4.0, rel=0.02)
    unwaited = figures["reuse"] / (1 - figures["wait_share"])
    assert unwaited == pytest.approx(figures["samples_per_second"] / (166 / 0.996), rel=0.02)


def test_one_that_is_behind_draws_less_than_is_paid_for() -> None:
    loop = Loop()
    for _ in range(600):
        loop.round(arrived=500, work=1.0, wait=0.0)
    figures = loop.demand.figures()
    assert figures["wait_share"] == 0.0
    assert figures["reuse"] == pytest.approx(2.0, rel=0.02)
    assert figures["samples_per_second"] == pytest.approx(1_000, rel=0.01)


def test_only_the_last_ten_minutes_count_and_a_speed_is_not_forgotten_while_nothing_comes() -> None:
    loop = Loop()
    for _ in range(300):
        loop.round(arrived=250, work=1.0, wait=0.0)
    for _ in range(1_300):
        loop.round(arrived=0, work=0.0, wait=0.5)
    figures = loop.demand.figures()
    assert figures["wait_share"] == pytest.approx(1.0, abs=0.01)
    assert "reuse" not in figures
    assert figures["samples_per_second"] == pytest.approx(1_000, rel=0.1)


def test_a_wait_that_goes_on_counts_already() -> None:
    loop = Loop()
    loop.round(arrived=250, work=1.0, wait=0.0)
    loop.demand.turn(hungry=True)
    loop.now += 3.0
    assert loop.demand.figures()["wait_share"] == pytest.approx(0.75)


def test_the_target_is_what_a_position_pays_for_now() -> None:
    loop = Loop()
    loop.bucket.slow(0.25)
    assert loop.demand.figures()["reuse_target"] == 1.0
