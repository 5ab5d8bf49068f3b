"""Counters of the batcher, kept as plain numbers by its threads and read at leisure."""

from __future__ import annotations

import bisect
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from zerofleet.rpc.inference_service import BatchStatistics, Duration, ModelCounters
from zerofleet.services.inference.batch import Batch
from zerofleet.services.inference.loaded_models import LoadedModel

QUEUE_WAIT_BOUNDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)  # seconds


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
    """What all models of one precision have done since the start."""

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
