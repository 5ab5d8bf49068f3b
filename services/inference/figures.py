"""What the service says of itself: what its batcher did lately, and what it waits for."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from services.inference.batcher import Batcher
from services.inference.capacity import BatchCost
from services.inference.repository import Repository
from services.inference.statistics import Totals
from zerofleet.service import Pulse

_WINDOW_SECONDS = 30.0
_LINEAR = ("cpu", "openvino")  # providers of which a row costs the same in every batch


@dataclass(frozen=True, slots=True)
class _Look:
    """The batcher's totals at one moment."""

    seconds: float
    rows: int
    executions: int
    requests: int
    queue_ns: int
    compute_ns: int

    @classmethod
    def of(cls, totals: Totals, seconds: float) -> _Look:
        return cls(
            seconds=seconds,
            rows=totals.rows,
            executions=totals.executions,
            requests=totals.success + totals.fail,
            queue_ns=totals.queue_ns,
            compute_ns=totals.compute_ns,
        )


class Figures:
    """Reports what happened since it was last asked, and in the last half minute.

    Args:
        batcher: whose rows are reported.
        repository: whose best model is reported.
        provider: what the models run on.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        batcher: Batcher,
        repository: Repository,
        provider: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._batcher = batcher
        self._repository = repository
        self._provider = provider
        self._clock = clock
        self._looks = deque([_Look.of(batcher.statistics.totals, clock())])
        self._linear = provider in _LINEAR
        self._cost = BatchCost(linear=self._linear)
        self._costed: str = ""  # the precision whose batches are known

    @property
    def capacity(self) -> float:
        """Rows a second in full batches on all model threads; 0 while that is not known."""
        limits = self._batcher.limits
        return limits.threads * self._cost.rows_per_second(limits.max_batch_rows)

    def pulse(self) -> Pulse:
        """For the heartbeat; progress is the rows predicted."""
        rows = self._batcher.statistics.totals.rows
        return Pulse(rows, self._repository.waiting_for, self.figures())

    def figures(self) -> dict[str, float]:
        """Rows and batches since the last call, the rest over the last half minute."""
        before = self._looks[-1]
        now = _Look.of(self._batcher.statistics.totals, self._clock())
        self._looks.append(now)
        while now.seconds - self._looks[0].seconds > _WINDOW_SECONDS:
            self._looks.popleft()
        rows, executions = now.rows - before.rows, now.executions - before.executions
        best = self._repository.peek(None)
        self._learn(before, now, best.precision if best else "")
        # Figures are numbers, and words among them would end the readers of earlier versions.
        words = {f"provider_{self._provider}": 1.0}
        if best:
            words[f"precision_{best.precision}"] = 1.0
        return words | {
            "rows_per_s": rows / max(1e-9, now.seconds - before.seconds),
            "batch_mean": rows / executions if executions else 0.0,
            "queue_rows": float(self._batcher.queue_rows),
            "model_version": float(best.version) if best else 0.0,
            "model_load_failures": float(self._repository.failed_loads),
            **self._lately(self._looks[0], now),
        }

    def _learn(self, before: _Look, now: _Look, precision: str) -> None:
        if precision != self._costed:  # versions cost alike, precisions do not
            self._cost = BatchCost(linear=self._linear)
            self._costed = precision
        self._cost.add(
            now.executions - before.executions,
            now.rows - before.rows,
            (now.compute_ns - before.compute_ns) / 1e9,
        )

    def _lately(self, first: _Look, now: _Look) -> dict[str, float]:
        """What the number of self-play workers and inference replicas follows from."""
        rows, executions = now.rows - first.rows, now.executions - first.executions
        requests = now.requests - first.requests
        figures = {
            "rows_per_second": rows / max(1e-9, now.seconds - first.seconds),
            "capacity_rows_per_second": self.capacity,
        }
        if executions and requests:
            wait = (now.queue_ns - first.queue_ns) / requests
            compute = (now.compute_ns - first.compute_ns) / executions
            figures["fill"] = rows / executions / self._batcher.limits.max_batch_rows
            figures["queue_wait_per_compute"] = wait / max(1.0, compute)
        return figures
