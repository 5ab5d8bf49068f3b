"""Load of an inference server, computed from the counters of its batcher."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from zerofleet.services.inference.batcher import Batcher, BatchLimits
from zerofleet.services.inference.recent_load import Load
from zerofleet.services.inference.served_models import ServedModels


class Server:
    """Counters that the test moves, and a clock."""

    def __init__(self, *, threads: int = 1, provider: str = "cpu") -> None:
        self.now = 0.0
        self.precision = "fp32"
        self.batcher = Batcher(BatchLimits(1_000, 10_000, threads), lambda model: None)
        models = SimpleNamespace(
            failed_loads=0,
            waiting_for="",
            best_fault="",
            peek=lambda version: SimpleNamespace(version=3, precision=self.precision),
        )
        self.load = Load(self.batcher, cast("ServedModels", models), provider, lambda: self.now)

    def second(self, *, batches: int, rows: int, requests: int, wait: float, run: float) -> None:
        """Add a second with batches; ``wait`` and ``run`` are seconds per request and per batch."""
        totals = self.batcher.statistics.totals
        totals.executions += batches
        for _ in range(batches):
            self.batcher.statistics.batch_rows.add(rows)
        totals.rows += batches * rows
        totals.success += requests
        totals.queue_ns += round(requests * wait * 1e9)
        totals.compute_ns += round(batches * run * 1e9)
        self.now += 1.0


def test_fill_wait_and_capacity_of_the_last_half_minute() -> None:
    server = Server()
    for _ in range(60):
        server.second(batches=8, rows=250, requests=8, wait=0.02, run=0.1)
        found = server.load.figures()
    assert found.rows_per_second == pytest.approx(2_000)
    assert found.fill == pytest.approx(0.25)
    assert found.batches_by_rows == (*[0] * 8, 240, 0, 0)  # batches of 129 to 256 rows
    assert found.queue_wait_per_compute == pytest.approx(0.2)
    assert found.capacity_rows_per_second == pytest.approx(2_500)  # a row takes 0.4 ms
    for _ in range(31):
        server.second(batches=0, rows=0, requests=0, wait=0, run=0)
        found = server.load.figures()
    assert found.rows_per_second == 0.0
    assert not any(found.batches_by_rows)
    assert found.queue_wait_per_compute is None
    assert found.capacity_rows_per_second == pytest.approx(2_500)


def test_every_model_thread_adds_its_capacity() -> None:
    server = Server(threads=2)
    server.second(batches=8, rows=250, requests=8, wait=0.02, run=0.1)
    assert server.load.figures().capacity_rows_per_second == pytest.approx(5_000)


def test_another_precision_is_another_cost() -> None:
    server = Server()
    server.second(batches=1, rows=100, requests=1, wait=0, run=0.1)
    assert server.load.figures().capacity_rows_per_second == pytest.approx(1_000)
    server.precision = "int8"
    server.second(batches=1, rows=100, requests=1, wait=0, run=0.025)
    assert server.load.figures().capacity_rows_per_second == pytest.approx(4_000)


def test_on_a_gpu_nothing_is_known_of_full_batches_before_there_are_some() -> None:
    server = Server(provider="cuda")
    server.second(batches=9, rows=100, requests=9, wait=0, run=0.002)
    assert server.load.figures().capacity_rows_per_second == 0.0
    server.second(batches=9, rows=1_000, requests=9, wait=0, run=0.005)
    assert server.load.capacity == 0.0  # the load has not been measured yet
    assert server.load.figures().capacity_rows_per_second == pytest.approx(200_000)
