"""The batcher: rows of many clients become batches of one model. It counts what it does.

It adds no delay: an idle model thread takes the rows that wait, up to the limit, and while it runs
them the next batch gathers. A client's rows stay together, a batch is of one model, and models
take turns. All state is guarded by one lock; answers return to the event loop in one call for
each batch.
"""

from __future__ import annotations

import asyncio
import bisect
import threading
import time
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self
from weakref import WeakKeyDictionary

import numpy as np
import structlog
from numpy.typing import NDArray

from zerofleet.errors import InferenceUnavailableError, OverloadedError, ZerofleetError
from zerofleet.prediction import FP32, Prediction
from zerofleet.rpc.inference_service import BatchStatistics, Duration, ModelCounters
from zerofleet.services.inference.loaded_models import LoadedModel

_log = structlog.get_logger()

QUEUE_WAIT_BOUNDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)  # seconds
_MOST_FAILURES = 3  # batches of a model in a row; fewer may be a passing fault
_HALF_INFINITY = 0x7C00  # bits of an FP16 infinity; a NaN has larger ones


@dataclass(slots=True, eq=False)
class Request:
    """One client's rows, which stay together."""

    observations: NDArray[np.uint8]
    deadline: float | None  # by time.monotonic()
    answer: asyncio.Future[Prediction]
    queued_ns: int  # by time.perf_counter_ns()

    @property
    def rows(self) -> int:
        """Rows of its batch."""
        return len(self.observations)

    def is_over(self, now: float) -> bool:
        """Return whether its client has gone, or its deadline has passed."""
        return self.answer.cancelled() or (self.deadline is not None and self.deadline <= now)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Requests of one model that run together."""

    model: LoadedModel
    requests: tuple[Request, ...]
    is_full: bool  # another request waited and did not fit
    expired: tuple[Request, ...] = ()  # their deadline passed while they waited

    @property
    def rows(self) -> int:
        """Rows of all requests."""
        return sum(request.rows for request in self.requests)

    def observations(self) -> NDArray[np.uint8]:
        """All rows in order; copied only when there are several requests."""
        if len(self.requests) == 1:
            return self.requests[0].observations
        return np.concatenate([request.observations for request in self.requests])

    def slices(self) -> Iterator[tuple[Request, slice]]:
        """Each request with its rows of the outputs."""
        start = 0
        for request in self.requests:
            yield request, slice(start, start + request.rows)
            start += request.rows


class ModelQueue:
    """Requests that wait for one model, oldest first. The batcher's lock guards it."""

    def __init__(self, model: LoadedModel) -> None:
        self.model = model
        self.rows = 0
        self._requests: deque[Request] = deque()

    def __bool__(self) -> bool:
        return bool(self._requests)

    def append(self, request: Request) -> None:
        """Add the newest."""
        self._requests.append(request)
        self.rows += request.rows

    def purge(self) -> list[Request]:
        """Remove requests that are over; returns those whose deadline passed, to be answered."""
        now = time.monotonic()
        over = [request for request in self._requests if request.is_over(now)]
        if over:
            self._requests = deque(r for r in self._requests if not r.is_over(now))
            self.rows = sum(request.rows for request in self._requests)
        return [request for request in over if not request.answer.cancelled()]

    def take(self, most: int, share: int) -> Batch:
        """Take requests from the front, whole ones only.

        Args:
            most: rows that a batch may have; a single request never has more.
            share: stop when the batch has this many, so that other threads get some, too.
        """
        now = time.monotonic()
        taken: list[Request] = []
        expired: list[Request] = []
        rows = 0
        while self._requests and rows < share:
            request = self._requests[0]
            if request.is_over(now):
                if not request.answer.cancelled():
                    expired.append(request)
            elif rows + request.rows > most:
                break
            else:
                taken.append(request)
                rows += request.rows
            self._requests.popleft()
            self.rows -= request.rows
        is_full = rows == most or (rows < share and bool(self._requests))
        return Batch(self.model, tuple(taken), is_full, tuple(expired))


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """When a batch's stages began and ended, by ``time.perf_counter_ns``."""

    start: int
    ready: int  # its rows are together
    ran: int
    checked: int


@dataclass(slots=True)
class _Sum:
    count: int = 0
    ns: int = 0

    def add(self, count: int, ns: int) -> None:
        self.count += count
        self.ns += ns

    def merge(self, other: _Sum) -> None:
        self.add(other.count, other.ns)

    def frozen(self) -> Duration:
        return Duration(self.count, self.ns)


@dataclass(slots=True)
class _Stages:
    """Input, infer and output, each counted for every request of a batch."""

    input: _Sum = field(default_factory=_Sum)
    infer: _Sum = field(default_factory=_Sum)
    output: _Sum = field(default_factory=_Sum)

    def add(self, count: int, times: BatchTimes) -> None:
        self.input.add(count, count * (times.ready - times.start))
        self.infer.add(count, count * (times.ran - times.ready))
        self.output.add(count, count * (times.checked - times.ran))

    def merge(self, other: _Stages) -> None:
        self.input.merge(other.input)
        self.infer.merge(other.infer)
        self.output.merge(other.output)


@dataclass(slots=True)
class _OfModel:
    rows: int = 0
    executions: int = 0
    last_ms: int = 0
    success: _Sum = field(default_factory=_Sum)
    fail: _Sum = field(default_factory=_Sum)
    queue: _Sum = field(default_factory=_Sum)
    stages: _Stages = field(default_factory=_Stages)
    sizes: defaultdict[int, _Stages] = field(default_factory=lambda: defaultdict(_Stages))

    def merge(self, other: _OfModel) -> None:
        self.rows += other.rows
        self.executions += other.executions
        self.last_ms = max(self.last_ms, other.last_ms)
        self.success.merge(other.success)
        self.fail.merge(other.fail)
        self.queue.merge(other.queue)
        self.stages.merge(other.stages)
        for rows, stages in other.sizes.items():
            self.sizes[rows].merge(stages)


@dataclass(slots=True)
class Histogram:
    """Counts by upper bound; the last count is of what lies above all bounds."""

    bounds: Sequence[float]
    counts: list[int] = field(init=False)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass(slots=True)
class OfPrecision:
    """Work of all models of one precision since the start."""

    rows: int = 0
    executions: int = 0


@dataclass(slots=True)
class Totals:
    """Over all models since the start."""

    rows: int = 0
    executions: int = 0
    success: int = 0
    fail: int = 0
    refused: int = 0
    expired: int = 0
    full: int = 0  # batches that left a request behind
    queue_ns: int = 0
    compute_ns: int = 0
    request_ns: int = 0


class Statistics:
    """Totals, histograms, and the counters of each model."""

    def __init__(self, max_batch_rows: int) -> None:
        self._lock = threading.Lock()
        # A model that left memory takes its counters along; its rows stay in the totals.
        self._models: WeakKeyDictionary[LoadedModel, _OfModel] = WeakKeyDictionary()
        self.totals = Totals()
        self.precisions: defaultdict[str, OfPrecision] = defaultdict(OfPrecision)
        self.batch_rows = Histogram(_powers_of_two(max_batch_rows))
        self.queue_wait = Histogram(QUEUE_WAIT_BOUNDS)

    def ran(self, batch: Batch, times: BatchTimes, finite: NDArray[np.bool_] | None) -> None:
        """A batch is done."""
        requests, rows, totals = batch.requests, batch.rows, self.totals
        failed = 0
        if finite is not None:
            failed = sum(not finite[part].all() for _, part in batch.slices())
        succeeded = len(requests) - failed
        waits = [times.start - request.queued_ns for request in requests]
        request_ns = sum(times.checked - request.queued_ns for request in requests)
        with self._lock:
            model = self._of(batch.model)
            model.rows += rows
            model.executions += 1
            model.last_ms = time.time_ns() // 1_000_000
            model.success.add(succeeded, request_ns)
            if failed:
                model.fail.add(failed, 0)
            # Clients compare these counts: each is the number of answered requests.
            model.queue.add(succeeded, sum(waits))
            model.stages.add(succeeded, times)
            model.sizes[rows].add(1, times)
            totals.rows += rows
            totals.executions += 1
            precision = self.precisions[batch.model.precision]
            precision.rows += rows
            precision.executions += 1
            totals.success += succeeded
            totals.fail += failed
            totals.full += batch.is_full
            totals.queue_ns += sum(waits)
            totals.compute_ns += times.checked - times.start
            totals.request_ns += request_ns
            self.batch_rows.add(rows)
            for wait in waits:
                self.queue_wait.add(wait / 1e9)

    def failed(self, batch: Batch) -> None:
        """A batch did not run to its end."""
        with self._lock:
            self._of(batch.model).fail.add(len(batch.requests), 0)
            self.totals.fail += len(batch.requests)

    def refused(self, model: LoadedModel, requests: int) -> None:
        """Requests found the queue full."""
        with self._lock:
            self._of(model).fail.add(requests, 0)
            self.totals.refused += requests

    def expired(self, requests: int) -> None:
        """Requests were dropped because their deadline passed."""
        with self._lock:
            self.totals.expired += requests

    def counters(self, models: Sequence[LoadedModel]) -> ModelCounters:
        """The counters of one version's models together, all of one moment."""
        with self._lock:
            found = _OfModel()
            for model in models:
                found.merge(self._of(model))
            return ModelCounters(
                version=models[0].version,
                rows=found.rows,
                executions=found.executions,
                last_inference_ms=found.last_ms,
                success=found.success.frozen(),
                fail=found.fail.frozen(),
                queue=found.queue.frozen(),
                compute_input=found.stages.input.frozen(),
                compute_infer=found.stages.infer.frozen(),
                compute_output=found.stages.output.frozen(),
                batches=tuple(
                    BatchStatistics(
                        rows,
                        stages.input.frozen(),
                        stages.infer.frozen(),
                        stages.output.frozen(),
                    )
                    for rows, stages in sorted(found.sizes.items())
                ),
            )

    def _of(self, model: LoadedModel) -> _OfModel:
        found = self._models.get(model)
        if found is None:
            found = self._models[model] = _OfModel()
        return found


def _powers_of_two(most: int) -> tuple[float, ...]:
    return tuple(float(1 << power) for power in range((most - 1).bit_length() + 1))


class NonFiniteOutputError(ZerofleetError):
    """The model answered with infinities or not-a-numbers."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Limits of the batcher."""

    max_batch_rows: int
    max_queue_rows: int
    threads: int = 1


@dataclass(frozen=True, slots=True)
class _Outputs:
    """Results that a model thread hands back to the event loop."""

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
        """Set when a needed model fails again and again: the process should exit so that its
        supervisor restarts it."""
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
                        batch.model.file.sha256,
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
    """Return which rows are finite; None when all are, which is the cheap case."""
    # np.isfinite takes ten times longer for FP16 than this test of bits. Chess has 1,858 a row.
    magnitudes = policy_logits.view(np.uint16) & 0x7FFF
    if np.isfinite(value).all() and magnitudes.max(initial=0) < _HALF_INFINITY:
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
