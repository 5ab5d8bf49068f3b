"""The heartbeat: once a second, what the service does and what it waits for."""

from __future__ import annotations

import asyncio
import contextlib
import time

from services.inference.batcher import Batcher
from services.inference.repository import Repository
from zerofleet.errors import StoreUnavailableError
from zerofleet.heartbeat import Heartbeats

_EVERY_SECONDS = 1.0


class Pulse:
    """Reports the last second of a batcher.

    Args:
        heartbeats: of the run.
        worker: name of this process.
        batcher: whose rows are reported.
        repository: whose best model is reported.
    """

    def __init__(
        self, heartbeats: Heartbeats, worker: str, batcher: Batcher, repository: Repository
    ) -> None:
        self._heartbeats = heartbeats
        self._worker = worker
        self._batcher = batcher
        self._repository = repository
        self._at = time.monotonic()
        self._rows = 0
        self._executions = 0

    async def beat(self) -> None:
        """Beat for ever; a Redis that is away is no reason to stop."""
        while True:
            progress = self._batcher.statistics.totals.rows
            waiting_for, figures = self._repository.waiting_for, self.figures()
            with contextlib.suppress(StoreUnavailableError):
                await asyncio.to_thread(
                    self._heartbeats.beat,
                    "inference",
                    self._worker,
                    progress,
                    waiting_for,
                    figures,
                )
            await asyncio.sleep(_EVERY_SECONDS)

    def figures(self) -> dict[str, float]:
        """Since the last call."""
        totals, now = self._batcher.statistics.totals, time.monotonic()
        rows, executions = totals.rows - self._rows, totals.executions - self._executions
        seconds = max(1e-9, now - self._at)
        self._rows, self._executions, self._at = totals.rows, totals.executions, now
        best = self._repository.peek(None)
        return {
            "rows_per_s": rows / seconds,
            "batch_mean": rows / executions if executions else 0.0,
            "queue_rows": float(self._batcher.queue_rows),
            "model_version": float(best.version) if best else 0.0,
            "model_load_failures": float(self._repository.failed_loads),
        }
