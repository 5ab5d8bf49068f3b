"""The batcher: rows of many clients become batches of one model.

It adds no delay: an idle model thread takes the rows that wait, up to the limit, and while it runs
them the next batch gathers. A client's rows stay together, a batch is of one model, and models
take turns. All state is guarded by one lock; answers return to the event loop in one call for
each batch.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self
from weakref import WeakKeyDictionary

import numpy as np
import structlog
from numpy.typing import NDArray

from zerofleet.errors import InferenceUnavailableError, OverloadedError, ZerofleetError
from zerofleet.prediction import Prediction
from zerofleet.services.inference.batch import Batch, ModelQueue, Request
from zerofleet.services.inference.loaded_models import FP32, LoadedModel
from zerofleet.services.inference.statistics import BatchTimes, Statistics

_log = structlog.get_logger()

_MOST_FAILURES = 3  # batches of a model in a row; fewer may be a passing fault


class NonFiniteOutputError(ZerofleetError):
    """The model answered with infinities or not-a-numbers."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What the batcher may hold and do."""

    max_batch_rows: int
    max_queue_rows: int
    threads: int = 1


@dataclass(frozen=True, slots=True)
class _Outputs:
    """What a model thread hands back to the event loop."""

    batch: Batch
    policy_logits: NDArray[np.float16] | None = None
    value: NDArray[np.float32] | None = None
    finite: NDArray[np.bool_] | None = None  # [rows]; None: all
    error: Exception | None = None


class Batcher:
    """Runs models on threads of its own, for ``async with``; ``submit`` from its loop only.

    Args:
        limits: rows and threads.
        on_bad: called in the loop for a model that gave non-finite outputs, and for a variant
            that fails again and again.
        is_needed: whether this process is of no use when a model fails in fp32.
    """

    def __init__(
        self,
        limits: BatchLimits,
        on_bad: Callable[[LoadedModel], None],
        is_needed: Callable[[LoadedModel], bool] = lambda model: True,
    ) -> None:
        self.limits = limits
        self.statistics = Statistics(limits.max_batch_rows)
        self.broken = asyncio.Event()
        """Set when a needed model fails again and again: this process should end, so that it is
        started anew."""
        self._on_bad = on_bad
        self._is_needed = is_needed
        self._failures: WeakKeyDictionary[LoadedModel, int] = WeakKeyDictionary()  # in a row
        self._changed = threading.Condition()
        self._queues: OrderedDict[LoadedModel, ModelQueue] = OrderedDict()  # next turn first
        self._queue_rows = 0
        self._closing = False
        self._threads: list[threading.Thread] = []

    @property
    def queue_rows(self) -> int:
        """Rows that wait now."""
        return self._queue_rows

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        for number in range(self.limits.threads):
            thread = threading.Thread(
                target=self._work, args=(number,), name=f"model-{number}", daemon=True
            )
            thread.start()
            self._threads.append(thread)
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Answer what waits, then end the threads."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        await asyncio.sleep(0)  # the last batch's answers

    def submit(
        self, model: LoadedModel, observations: NDArray[np.uint8], deadline: float | None = None
    ) -> asyncio.Future[Prediction]:
        """Queue a client's rows; cancelling the future takes them back.

        Args:
            model: which model answers.
            observations: ``[rows, observation_bytes]`` uint8, at most ``max_batch_rows``.
            deadline: by ``time.monotonic()``; dropped when it passes before a thread is free.

        Raises:
            OverloadedError: the queue is full.
            InferenceUnavailableError: shutting down; from the future: the deadline passed.
        """
        rows = len(observations)
        answer: asyncio.Future[Prediction] = self._loop.create_future()
        request = Request(observations, deadline, answer, time.perf_counter_ns())
        with self._changed:
            if self._closing:
                raise InferenceUnavailableError("the server is shutting down")
            if self._queue_rows + rows > self.limits.max_queue_rows:
                self._purge()
            if self._queue_rows + rows > self.limits.max_queue_rows:
                self.statistics.refused(model, 1)
                raise OverloadedError(
                    f"{self._queue_rows} rows wait and {rows} more are over the limit of "
                    f"{self.limits.max_queue_rows}: send again later"
                )
            queue = self._queues.get(model)
            if queue is None:
                queue = self._queues[model] = ModelQueue(model)
            queue.append(request)
            self._queue_rows += rows
            self._changed.notify()
        return answer

    def _purge(self) -> None:
        """Make room: drop requests whose client has gone or whose deadline has passed."""
        expired: list[Request] = []
        for queue in self._queues.values():
            expired += queue.purge()
        self.statistics.expired(len(expired))
        self._queue_rows = sum(queue.rows for queue in self._queues.values())
        self._loop.call_soon(_answer_expired, tuple(expired))

    def _work(self, number: int) -> None:
        while (batch := self._take()) is not None:
            outputs = self._run(number, batch)
            self._loop.call_soon_threadsafe(self._deliver, outputs)

    def _take(self) -> Batch | None:
        """Wait for a batch; None at the end."""
        with self._changed:
            while not self._queues:
                if self._closing:
                    return None
                self._changed.wait()
            model, queue = next(iter(self._queues.items()))
            before = queue.rows
            # Rounded up, so that one thread alone takes all there is.
            share = -(-queue.rows // self.limits.threads)
            batch = queue.take(self.limits.max_batch_rows, share)
            self._queue_rows -= before - queue.rows
            if queue:
                self._queues.move_to_end(model)
            else:
                del self._queues[model]
            return batch

    def _run(self, thread: int, batch: Batch) -> _Outputs:
        if batch.expired:
            self.statistics.expired(len(batch.expired))
        if not batch.requests:
            return _Outputs(batch)
        start = time.perf_counter_ns()
        try:
            observations = batch.observations()
            ready = time.perf_counter_ns()
            policy_logits, value = batch.model.run(thread, observations)
            ran = time.perf_counter_ns()
            finite = _finite_rows(policy_logits, value)
        except Exception as error:
            self.statistics.failed(batch)
            return _Outputs(batch, error=error)
        self.statistics.ran(batch, BatchTimes(start, ready, ran, time.perf_counter_ns()), finite)
        return _Outputs(batch, policy_logits, value, finite)

    def _deliver(self, outputs: _Outputs) -> None:
        batch, policy_logits, value = outputs.batch, outputs.policy_logits, outputs.value
        _answer_expired(batch.expired)
        if outputs.error is not None:
            _log.error(
                "batch_failed",
                version=batch.model.version,
                precision=batch.model.precision,
                exc_info=outputs.error,
            )
            self._count_failure(batch.model)
        elif batch.requests:
            self._failures.pop(batch.model, None)
        if outputs.finite is not None:
            self._on_bad(batch.model)
        for request, rows in batch.slices():
            if request.answer.done():
                continue
            if policy_logits is None or value is None:
                request.answer.set_exception(_failed(batch.model))
            elif outputs.finite is not None and not outputs.finite[rows].all():
                request.answer.set_exception(
                    NonFiniteOutputError(
                        f"model version {batch.model.version} ({batch.model.precision}) answered "
                        "with numbers that are not finite and is not used any more"
                    )
                )
            else:
                request.answer.set_result(
                    Prediction(
                        policy_logits[rows],
                        value[rows],
                        batch.model.version,
                        batch.model.precision,
                        batch.model.sha256,
                    )
                )

    def _count_failure(self, model: LoadedModel) -> None:
        """Stop using a model that fails in every run.

        A client cannot cause this: the shape of rows is checked before they come here, and a
        network computes something from any bits.
        """
        failures = self._failures[model] = self._failures.get(model, 0) + 1
        if failures < _MOST_FAILURES:
            return
        if model.precision != FP32:
            self._on_bad(model)
        elif self._is_needed(model) and not self.broken.is_set():
            _log.error("model_always_fails", version=model.version, batches=failures)
            self.broken.set()


def _finite_rows(
    policy_logits: NDArray[np.float16], value: NDArray[np.float32]
) -> NDArray[np.bool_] | None:
    """Which rows are finite; None when all are, which is the cheap case."""
    if np.isfinite(value).all() and np.isfinite(policy_logits).all():
        return None
    return np.isfinite(value) & np.isfinite(policy_logits).all(axis=1)


def _failed(model: LoadedModel) -> ZerofleetError:
    return ZerofleetError(f"model version {model.version} failed to run; see the server's log")


def _answer_expired(expired: Sequence[Request]) -> None:
    for request in expired:
        if not request.answer.done():
            request.answer.set_exception(
                InferenceUnavailableError("the deadline passed before a model thread was free")
            )
