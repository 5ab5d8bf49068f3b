"""The batcher with models that a test holds by the hand."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from zerofleet.errors import InferenceUnavailableError, OverloadedError, ZerofleetError
from zerofleet.prediction import FP32, ModelFile
from zerofleet.services.inference.batcher import Batcher, BatchLimits, NonFiniteOutputError
from zerofleet.services.inference.loaded_models import LoadedModel


class HeldSession:
    """Doubles its input's bytes, but only when the test lets it; notes the sizes of batches."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.started = threading.Event()
        self.go = threading.Event()
        self.error: Exception | None = None
        self.infinite_where = -1

    def run(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.sizes.append(len(observations))
        self.started.set()
        assert self.go.wait(120)
        if self.error is not None:
            raise self.error
        value = 2 * observations[:, 0].astype(np.float32)
        value[observations[:, 0] == self.infinite_where] = np.inf
        return np.repeat(observations[:, :1], 3, axis=1).astype(np.float16), value


def _model(version: int = 1) -> tuple[LoadedModel, HeldSession]:
    session = HeldSession()
    return LoadedModel(ModelFile(version, FP32, ""), (session, session)), session


def _rows(*firsts: int) -> np.ndarray:
    return np.array([[first, 0] for first in firsts], np.uint8)


def _batcher(**limits: object) -> Batcher:
    values: dict[str, object] = {"max_batch_rows": 8, "max_queue_rows": 20} | limits
    return Batcher(BatchLimits(**values), lambda model: None)  # type: ignore[arg-type]


async def _started(session: HeldSession) -> None:
    assert await asyncio.to_thread(session.started.wait, 20)


async def test_what_waits_while_a_batch_runs_is_the_next_batch() -> None:
    model, session = _model()
    async with _batcher() as batcher:
        first = batcher.submit(model, _rows(1))
        await _started(session)
        others = [batcher.submit(model, _rows(*range(k, k + 3))) for k in (10, 20, 30)]
        assert batcher.queue_rows == 9
        session.go.set()
        assert (await first).value.tolist() == [2]
        answers = await asyncio.gather(*others)
    assert [answer.value.tolist() for answer in answers] == [
        [20, 22, 24],
        [40, 42, 44],
        [60, 62, 64],
    ]
    assert session.sizes == [1, 6, 3]  # 9 rows are over the limit of 8, and nobody is split
    assert batcher.queue_rows == 0
    assert batcher.statistics.totals.full == 1


async def test_models_take_turns_and_never_share_a_batch() -> None:
    (one, session_one), (two, session_two) = _model(1), _model(2)
    async with _batcher() as batcher:
        held = batcher.submit(one, _rows(0))
        await _started(session_one)
        waiting = [batcher.submit(one, _rows(k, k, k, k)) for k in (1, 2, 3)]
        other = batcher.submit(two, _rows(9))
        session_two.go.set()
        session_one.go.set()
        answers = await asyncio.gather(held, *waiting, other)
    assert [answer.model_version for answer in answers] == [1, 1, 1, 1, 2]
    assert session_one.sizes == [1, 8, 4]
    assert session_two.sizes == [1]


async def test_the_queue_is_bounded_in_rows() -> None:
    model, session = _model()
    async with _batcher() as batcher:
        batcher.submit(model, _rows(0))
        await _started(session)
        waiting = [batcher.submit(model, _rows(*range(8))) for _ in range(2)]
        with pytest.raises(OverloadedError, match="16 rows wait and 5 more"):
            batcher.submit(model, _rows(*range(5)))
        last = batcher.submit(model, _rows(*range(4)))
        session.go.set()
        await asyncio.gather(*waiting, last)
    assert batcher.statistics.totals.refused == 1


async def test_cancelled_and_expired_rows_give_their_room_back() -> None:
    model, session = _model()
    async with _batcher() as batcher:
        batcher.submit(model, _rows(0))
        await _started(session)
        cancelled = batcher.submit(model, _rows(*range(8)))
        expired = batcher.submit(model, _rows(*range(8)), deadline=time.monotonic() - 1)
        cancelled.cancel()
        room = [batcher.submit(model, _rows(*range(7))) for _ in range(2)]
        assert batcher.queue_rows == 14
        with pytest.raises(InferenceUnavailableError, match="deadline"):
            await expired
        session.go.set()
        await asyncio.gather(*room)
    assert session.sizes == [1, 7, 7]
    assert batcher.statistics.totals.expired == 1


async def test_expired_rows_are_not_run() -> None:
    model, session = _model()
    async with _batcher() as batcher:
        batcher.submit(model, _rows(0))
        await _started(session)
        expired = batcher.submit(model, _rows(1), deadline=time.monotonic() - 1)
        good = batcher.submit(model, _rows(2), deadline=time.monotonic() + 60)
        session.go.set()
        with pytest.raises(InferenceUnavailableError, match="deadline"):
            await expired
        assert (await good).value.tolist() == [4]
    assert session.sizes == [1, 1]


async def test_two_threads_share_what_waits() -> None:
    model, session = _model()
    async with _batcher(threads=2) as batcher:
        held = [batcher.submit(model, _rows(0)) for _ in range(2)]
        while len(session.sizes) < 2:  # noqa: ASYNC110 - two threads set it
            await asyncio.sleep(0)
        waiting = [batcher.submit(model, _rows(k, k)) for k in range(4)]
        session.go.set()
        await asyncio.gather(*held, *waiting)
    assert sorted(session.sizes[:3]) == [1, 1, 4]
    assert sum(session.sizes) == 10


async def test_infinities_fail_their_request_and_report_the_model() -> None:
    model, session = _model()
    session.infinite_where = 66
    bad: list[LoadedModel] = []
    async with Batcher(BatchLimits(8, 20), bad.append) as batcher:
        batcher.submit(model, _rows(0))
        await _started(session)
        good, poisoned = batcher.submit(model, _rows(1, 2)), batcher.submit(model, _rows(3, 66))
        session.go.set()
        assert (await good).value.tolist() == [2, 4]
        with pytest.raises(NonFiniteOutputError, match="version 1"):
            await poisoned
    assert bad == [model]
    counters = batcher.statistics.counters([model])
    assert counters.success.count == counters.compute_infer.count == 2
    assert counters.fail.count == 1


async def test_a_model_that_breaks_fails_its_batch_and_the_thread_lives_on() -> None:
    (broken, session), (other, good) = _model(1), _model(2)
    session.error = MemoryError("too much")
    session.go.set()
    good.go.set()
    async with _batcher() as batcher:
        with pytest.raises(ZerofleetError, match="version 1 failed to run"):
            await batcher.submit(broken, _rows(1))
        assert (await batcher.submit(other, _rows(1))).model_version == 2
    assert batcher.statistics.counters([broken]).fail.count == 1


async def _fail(batcher: Batcher, model: LoadedModel, session: HeldSession, times: int) -> None:
    session.error = RuntimeError("CUDA failure 700: an illegal memory access was encountered")
    for _ in range(times):
        with pytest.raises(ZerofleetError, match="failed to run"):
            await batcher.submit(model, _rows(1))
    session.error = None


async def test_fp32_that_fails_three_times_in_a_row_breaks_the_batcher() -> None:
    (model, session), (other, good) = _model(1), _model(2)
    session.go.set()
    good.go.set()
    async with _batcher() as batcher:
        await _fail(batcher, model, session, 2)
        await batcher.submit(model, _rows(1))  # one success, and it may fail twice again
        await _fail(batcher, model, session, 2)
        assert (await batcher.submit(other, _rows(1))).model_version == 2  # none of the model's
        assert not batcher.broken.is_set()
        await _fail(batcher, model, session, 1)
        assert batcher.broken.is_set()


async def test_a_model_that_nobody_needs_may_fail_as_often_as_it_likes() -> None:
    """A candidate must not end the service that plays with the best model."""
    model, session = _model()
    session.go.set()
    bad: list[LoadedModel] = []
    async with Batcher(BatchLimits(8, 20), bad.append, lambda model: False) as batcher:
        await _fail(batcher, model, session, 4)
    assert not bad
    assert not batcher.broken.is_set()


async def test_a_variant_that_fails_three_times_in_a_row_is_given_up() -> None:
    model, session = _model()
    variant = replace(model, file=replace(model.file, precision="int8"))
    session.go.set()
    bad: list[LoadedModel] = []
    async with Batcher(BatchLimits(8, 20), bad.append) as batcher:
        await _fail(batcher, variant, session, 2)
        await batcher.submit(variant, _rows(1))
        await _fail(batcher, variant, session, 2)
        assert bad == []
        await _fail(batcher, variant, session, 1)
    assert bad == [variant]
    assert not batcher.broken.is_set()


async def test_leaving_answers_what_waits_and_refuses_what_comes() -> None:
    model, session = _model()
    batcher = _batcher()
    async with batcher:
        held = batcher.submit(model, _rows(0))
        await _started(session)
        waiting = batcher.submit(model, _rows(1))
        asyncio.get_running_loop().call_later(0.05, session.go.set)
    assert held.done()
    assert waiting.done()
    with pytest.raises(InferenceUnavailableError, match="shutting down"):
        batcher.submit(model, _rows(1))


async def test_statistics_add_up() -> None:
    model, session = _model()
    session.go.set()
    async with _batcher() as batcher:
        for rows in (1, 2, 2, 8):
            await batcher.submit(model, _rows(*range(rows)))
    counters = batcher.statistics.counters([model])
    assert (counters.rows, counters.executions) == (13, 4)
    stages: list[Callable[[], int]] = [
        lambda: counters.success.count,
        lambda: counters.queue.count,
        lambda: counters.compute_input.count,
        lambda: counters.compute_infer.count,
        lambda: counters.compute_output.count,
    ]
    assert [stage() for stage in stages] == [4] * 5
    assert counters.success.ns >= counters.compute_infer.ns > 0
    assert [batch.rows for batch in counters.batches] == [1, 2, 8]
    assert batcher.statistics.batch_rows.counts == [1, 2, 0, 1, 0]
    assert sum(batcher.statistics.queue_wait.counts) == 4
