"""Capacity of a server in full batches, learned from the batches that it gets."""

from __future__ import annotations

import numpy as np
import pytest

from zerofleet.services.inference.recent_load import BatchCost

FIXED, PER_ROW, MOST = 2e-3, 1e-5, 1024
CAPACITY = MOST / (FIXED + PER_ROW * MOST)


def add(cost: BatchCost, rows: int, noise: float = 1.0, batches: int = 10) -> None:
    cost.add(batches, batches * rows, batches * (FIXED + PER_ROW * rows) * noise)


@pytest.mark.parametrize("linear", [True, False])
def test_nothing_is_known_before_the_first_batch(linear: bool) -> None:
    cost = BatchCost(linear=linear)
    cost.add(0, 0, 0.0)
    assert cost.rows_per_second(MOST) == 0.0


def test_batches_of_different_sizes_tell_the_fixed_part() -> None:
    cost, random = BatchCost(linear=False), np.random.default_rng(1)
    for _ in range(100):
        add(cost, int(random.integers(50, 400)), random.uniform(0.97, 1.03))
    assert cost.rows_per_second(MOST) == pytest.approx(CAPACITY, rel=0.1)


def test_batches_of_one_size_do_not_unless_they_are_full() -> None:
    cost = BatchCost(linear=False)
    for _ in range(50):
        add(cost, 256)
    assert cost.rows_per_second(MOST) == 0.0
    assert cost.rows_per_second(256) == pytest.approx(256 / (FIXED + PER_ROW * 256))


def test_what_was_learned_is_kept_and_scaled_while_sizes_are_alike() -> None:
    cost = BatchCost(linear=False)
    for rows in (100, 200, 300, 400) * 10:
        add(cost, rows)
    for noise in (1.0, 2.0):  # the machine becomes half as fast
        for _ in range(500):
            add(cost, 256, noise=noise)
    assert cost.rows_per_second(MOST) == pytest.approx(CAPACITY / 2, rel=0.05)


def test_on_a_cpu_a_row_costs_the_same_in_every_batch() -> None:
    cost = BatchCost(linear=True)
    for _ in range(20):
        cost.add(4, 4 * 200, 4 * 200 * 339e-6)
    assert cost.rows_per_second(MOST) == pytest.approx(1 / 339e-6)


def test_an_accidental_slope_is_bounded() -> None:
    """Larger batches that happened to be quicker do not make capacity endless."""
    cost = BatchCost(linear=False)
    for rows, seconds in ((100, 0.02), (400, 0.01)) * 20:
        cost.add(1, rows, seconds)
    assert 0 < cost.rows_per_second(MOST) < 11 * 250 / 0.015
