"""The service's load and capacity: figures of its batcher for heartbeats and metrics.

Neither a model thread's busy time nor its rows tell the capacity. On a GPU a batch costs nearly the
same whether it is full or not, and a thread is busy with whatever there is. So the cost of a batch
is fitted as ``fixed + per_row * rows`` while it serves. The capacity is the rate of full batches
that run one after the other.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from zerofleet.fleet.figures import InferenceFigures
from zerofleet.service import Pulse
from zerofleet.services.inference.batcher import Batcher, Statistics
from zerofleet.services.inference.served_models import ServedModels

_WINDOW_SECONDS = 30.0
_LINEAR = ("cpu", "openvino")  # providers of which a row costs the same in every batch
_MEMORY = 0.98  # weight of a look that is left at the next: half of it after 34
_LEAST_SPREAD = 0.02  # spread / mean: sizes closer than this do not tell the parts apart
_LEAST_SLOPE = 0.1  # per row / mean cost of a row: a fit below it is an accident
_NEARLY_FULL = 0.9


@dataclass(frozen=True, slots=True)
class _Line:
    """Seconds of a batch by its rows."""

    fixed: float
    per_row: float

    def __call__(self, rows: float) -> float:
        return self.fixed + self.per_row * rows


class BatchCost:
    """Weighted least squares over the looks of the last minutes; the newest weigh most.

    A look is what batches were on average in a short time: means of points on a line lie on it.

    Args:
        linear: no part of the cost is fixed, as on CPUs; else that is unknown until batches of
            different sizes, or full ones, have run.
    """

    def __init__(self, *, linear: bool) -> None:
        self._line = _Line(0.0, 1.0) if linear else None  # its scale does not matter
        self._weight = self._rows = self._seconds = 0.0
        self._rows_rows = self._rows_seconds = 0.0

    def add(self, batches: int, rows: int, seconds: float) -> None:
        """Take in a look.

        Args:
            batches: that ran since the last look; of none nothing is learned.
            rows: of all of them.
            seconds: that all of them took.
        """
        if not batches or not rows or seconds <= 0:
            return
        mean_rows, mean_seconds = rows / batches, seconds / batches
        self._weight = _MEMORY * self._weight + 1
        self._rows = _MEMORY * self._rows + mean_rows
        self._seconds = _MEMORY * self._seconds + mean_seconds
        self._rows_rows = _MEMORY * self._rows_rows + mean_rows**2
        self._rows_seconds = _MEMORY * self._rows_seconds + mean_rows * mean_seconds
        self._fit()

    def rows_per_second(self, rows: int) -> float:
        """Rate of batches of this size, one after the other; 0 while that is not known."""
        if not self._weight:
            return 0.0
        mean_rows, mean_seconds = self._rows / self._weight, self._seconds / self._weight
        line = self._line
        if line is None:
            return mean_rows / mean_seconds if mean_rows >= _NEARLY_FULL * rows else 0.0
        return rows / (line(rows) * mean_seconds / line(mean_rows))

    def _fit(self) -> None:
        """Keep to the last line where sizes differ too little for a new one."""
        mean_rows, mean_seconds = self._rows / self._weight, self._seconds / self._weight
        variance = self._rows_rows / self._weight - mean_rows**2
        if variance < (_LEAST_SPREAD * mean_rows) ** 2:
            return
        covariance = self._rows_seconds / self._weight - mean_rows * mean_seconds
        steepest = mean_seconds / mean_rows  # nothing is fixed
        per_row = min(steepest, max(_LEAST_SLOPE * steepest, covariance / variance))
        self._line = _Line(mean_seconds - per_row * mean_rows, per_row)


@dataclass(frozen=True, slots=True)
class _LoadLook:
    """The batcher's totals at one moment."""

    seconds: float
    rows: int
    executions: int
    requests: int
    queue_ns: int
    compute_ns: int
    batches_by_rows: tuple[int, ...]

    @classmethod
    def of(cls, statistics: Statistics, seconds: float) -> _LoadLook:
        totals = statistics.totals
        return cls(
            seconds=seconds,
            rows=totals.rows,
            executions=totals.executions,
            requests=totals.success + totals.fail,
            queue_ns=totals.queue_ns,
            compute_ns=totals.compute_ns,
            # No batch is above the last bound.
            batches_by_rows=tuple(statistics.batch_rows.counts[:-1]),
        )


class Load:
    """Reports what happened since it was last asked, and in the last half minute.

    Args:
        batcher: whose rows are reported.
        models: whose best model is reported.
        provider: what the models run on.
        clock: seconds that never go back.
        runs_on: what the models run on, in words, with the sizes that were chosen for it.
    """

    def __init__(
        self,
        batcher: Batcher,
        models: ServedModels,
        provider: str,
        clock: Callable[[], float] = time.monotonic,
        *,
        runs_on: str = "",
    ) -> None:
        self._batcher = batcher
        self._models = models
        self._provider = provider
        self._runs_on = runs_on
        self._clock = clock
        self._looks = deque([_LoadLook.of(batcher.statistics, clock())])
        self._linear = provider in _LINEAR
        self._cost = BatchCost(linear=self._linear)
        self._costed: str = ""  # the precision whose batches are known

    @property
    def capacity(self) -> float:
        """Rows a second in full batches on all model threads; 0 while that is not known."""
        limits = self._batcher.limits
        return limits.threads * self._cost.rows_per_second(limits.max_batch_rows)

    def pulse(self) -> Pulse[InferenceFigures]:
        """For the heartbeat; progress is the rows predicted."""
        rows = self._batcher.statistics.totals.rows
        return Pulse(rows, self._models.waiting_for, self.figures(), self._models.status)

    def figures(self) -> InferenceFigures:
        """Mean batch since the last call, the rest over the last half minute."""
        before = self._looks[-1]
        now = _LoadLook.of(self._batcher.statistics, self._clock())
        self._looks.append(now)
        while now.seconds - self._looks[0].seconds > _WINDOW_SECONDS:
            self._looks.popleft()
        rows, executions = now.rows - before.rows, now.executions - before.executions
        best = self._models.peek(None)
        self._learn(before, now, best.precision if best else "")
        first = self._looks[0]
        fill, wait = self._lately(first, now)
        return InferenceFigures(
            provider=self._provider,
            runs_on=self._runs_on,
            precision=best.precision if best else None,
            batch_mean=rows / executions if executions else 0.0,
            queue_rows=self._batcher.queue_rows,
            model_version=best.version if best else None,
            best_fault=self._models.best_fault,
            model_load_failures=self._models.failed_loads,
            rows_per_second=(now.rows - first.rows) / max(1e-9, now.seconds - first.seconds),
            capacity_rows_per_second=self.capacity,
            fill=fill,
            queue_wait_per_compute=wait,
            batches_by_rows=tuple(
                count - earlier
                for count, earlier in zip(now.batches_by_rows, first.batches_by_rows, strict=True)
            ),
        )

    def _learn(self, before: _LoadLook, now: _LoadLook, precision: str) -> None:
        if precision != self._costed:  # all versions cost the same, precisions do not
            self._cost = BatchCost(linear=self._linear)
            self._costed = precision
        self._cost.add(
            now.executions - before.executions,
            now.rows - before.rows,
            (now.compute_ns - before.compute_ns) / 1e9,
        )

    def _lately(self, first: _LoadLook, now: _LoadLook) -> tuple[float, float] | tuple[None, None]:
        """Fill of the batches, and wait of the requests / run of the batches."""
        rows, executions = now.rows - first.rows, now.executions - first.executions
        requests = now.requests - first.requests
        if not executions or not requests:
            return None, None
        wait = (now.queue_ns - first.queue_ns) / requests
        compute = (now.compute_ns - first.compute_ns) / executions
        fill = rows / executions / self._batcher.limits.max_batch_rows
        return fill, wait / max(1.0, compute)
