"""What the service says of itself: what its batcher did lately, and what it waits for."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from zerofleet.fleet.figures import InferenceFigures
from zerofleet.service import Pulse
from zerofleet.services.inference.batcher import Batcher
from zerofleet.services.inference.capacity import BatchCost
from zerofleet.services.inference.served_models import ServedModels
from zerofleet.services.inference.statistics import Statistics

_WINDOW_SECONDS = 30.0
_LINEAR = ("cpu", "openvino")  # providers of which a row costs the same in every batch


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
    """

    def __init__(
        self,
        batcher: Batcher,
        models: ServedModels,
        provider: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._batcher = batcher
        self._models = models
        self._provider = provider
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
        """Rows and batches since the last call, the rest over the last half minute."""
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
            precision=best.precision if best else None,
            rows_per_s=rows / max(1e-9, now.seconds - before.seconds),
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
        if precision != self._costed:  # versions cost alike, precisions do not
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
