"""What the service says of itself: the last second of its batcher, and what it waits for."""

from __future__ import annotations

import time

from services.inference.batcher import Batcher
from services.inference.repository import Repository
from zerofleet.service import Pulse


class Figures:
    """Reports what happened since it was last asked.

    Args:
        batcher: whose rows are reported.
        repository: whose best model is reported.
        provider: what the models run on.
    """

    def __init__(self, batcher: Batcher, repository: Repository, provider: str) -> None:
        self._batcher = batcher
        self._repository = repository
        self._provider = provider
        self._at = time.monotonic()
        self._rows = 0
        self._executions = 0

    def pulse(self) -> Pulse:
        """For the heartbeat; progress is the rows predicted."""
        rows = self._batcher.statistics.totals.rows
        return Pulse(rows, self._repository.waiting_for, self.figures())

    def figures(self) -> dict[str, float]:
        """Since the last call."""
        totals, now = self._batcher.statistics.totals, time.monotonic()
        rows, executions = totals.rows - self._rows, totals.executions - self._executions
        seconds = max(1e-9, now - self._at)
        self._rows, self._executions, self._at = totals.rows, totals.executions, now
        best = self._repository.peek(None)
        # Figures are numbers, and words among them would end the readers of earlier versions.
        words = {f"provider_{self._provider}": 1.0}
        if best:
            words[f"precision_{best.precision}"] = 1.0
        return words | {
            "rows_per_s": rows / seconds,
            "batch_mean": rows / executions if executions else 0.0,
            "queue_rows": float(self._batcher.queue_rows),
            "model_version": float(best.version) if best else 0.0,
            "model_load_failures": float(self._repository.failed_loads),
        }
