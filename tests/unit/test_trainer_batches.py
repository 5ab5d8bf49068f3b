"""Batches drawn ahead: the same ones as without a thread, and nothing that hangs."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from zerofleet_core import ReplayBuffer

from tests.support.random_records import target_record
from tests.unit.test_trainer_learner import SPEC, a_run, batch, same, weights
from zerofleet.learning import Learner
from zerofleet.learning.batches import Prefetcher
from zerofleet.learning.measurement import TrainBatch
from zerofleet.learning.window import sample_seed

DEPTHS = [0, 1, 3]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    torch.set_num_threads(1)
    yield
    assert not [each for each in threading.enumerate() if each.name == "batches"]


def number(drawn: Any) -> int:
    return int(drawn[2][0])


def numbered(step: int) -> TrainBatch:
    return np.zeros((1, 4), np.uint8), np.zeros((1, 9), np.float32), np.full(1, step, np.float32)


def add(window: ReplayBuffer, seeds: range) -> None:
    for seed in seeds:
        record = target_record(seed)
        columns = record.columns
        window.add(
            columns.action,
            record.result or 0,
            columns.full_search,
            columns.offsets,
            columns.legal_actions,
            columns.policy_weights,
        )


def trained(depth: int, resumed_after: int | None = None) -> dict[str, torch.Tensor]:
    """Twelve steps, while games arrive before the fourth and the eighth."""
    learner, window = Learner(SPEC, a_run()), ReplayBuffer("tic_tac_toe", 1_000, 1_000)
    add(window, range(20))

    def draw(step: int) -> TrainBatch:
        return window.sample(32, sample_seed(1, "train", step), symmetry=True)

    batches = learner.batches(draw, depth)
    for step in range(12):
        if step in (4, 8):
            add(window, range(20 * step, 20 * step + 20))
            batches.discard()
        if step == resumed_after:
            before, learner = learner, Learner(SPEC, a_run())
            learner.restore(weights(before), before.step, before.samples)
            batches.close()
            batches = learner.batches(draw, depth)
        learner.train(batches.take(learner.step))
    batches.close()
    return weights(learner)


@pytest.mark.parametrize("depth", DEPTHS[1:])
def test_each_step_gets_the_batch_that_it_would_draw_itself(depth: int) -> None:
    expected = trained(0)
    assert same(trained(depth), expected)
    assert same(trained(depth, resumed_after=6), expected)


@pytest.mark.parametrize("depth", DEPTHS)
def test_batches_come_in_the_order_of_their_steps(depth: int) -> None:
    with contextlib.closing(Prefetcher(numbered, depth)) as batches:
        assert [number(batches.take(step)) for step in range(5)] == [0, 1, 2, 3, 4]
        assert number(batches.take(3)) == 3  # after a return to an earlier checkpoint
        assert number(batches.take(4)) == 4
        batches.discard()
        batches.discard()
        assert [number(batches.take(step)) for step in (5, 6)] == [5, 6]


def test_a_draw_from_before_a_change_is_dropped() -> None:
    begins, goes_on, games = threading.Semaphore(0), threading.Semaphore(0), [1]

    def draw(step: int) -> TrainBatch:
        found = games[0]
        begins.release()
        goes_on.acquire()
        return numbered(100 * found + step)

    with contextlib.closing(Prefetcher(draw, 1)) as batches:
        goes_on.release()
        assert number(batches.take(0)) == 100
        assert begins.acquire()
        assert begins.acquire()  # step 1 is being drawn from the old games
        games[0] = 2
        batches.discard()
        goes_on.release(8)
        assert number(batches.take(1)) == 201


def test_without_a_step_nothing_is_drawn() -> None:
    def draw(step: int) -> TrainBatch:
        raise AssertionError(step)

    batches = Prefetcher(draw, 2)
    batches.discard()
    batches.close()
    batches.close()


def test_closing_waits_for_a_draw_and_drops_what_is_ready() -> None:
    with contextlib.closing(Prefetcher(numbered, 3)) as batches:
        batches.take(0)


def test_a_closed_source_refuses_instead_of_waiting() -> None:
    batches = Prefetcher(numbered, 2)
    batches.close()
    with pytest.raises(RuntimeError, match="the batch of step 5 is not drawn"):
        batches.take(5)


@pytest.mark.parametrize("depth", DEPTHS)
def test_an_error_reaches_the_step_that_needs_the_batch(depth: int) -> None:
    def draw(step: int) -> TrainBatch:
        if step == 1:
            raise ValueError("no such game")
        return numbered(step)

    with contextlib.closing(Prefetcher(draw, depth)) as batches:
        assert number(batches.take(0)) == 0
        with pytest.raises(ValueError, match="no such game"):
            batches.take(1)


def test_a_learner_alone_takes_tensors_too() -> None:
    arrays, tensors = Learner(SPEC, a_run()), Learner(SPEC, a_run())
    arrays.train(batch(0))
    tensors.train([torch.from_numpy(column) for column in batch(0)])
    assert same(weights(arrays), weights(tensors))
