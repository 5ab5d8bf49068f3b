"""What an inference replica does for the workers on it, in mean values.

Each worker has two lanes: one's message is at the server while the other's tree works. That is a
closed network: a lane thinks, waits for the batch that runs, is computed with all that waited
beside it, and thinks again. The batcher adds no delay and takes what there is, up to the most rows
of a batch. ``tests/unit/test_bench_scale_sim.py`` holds these means against the network played
through message by message.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[np.float64]
_ROUNDS = 30
_DAMPING = 0.5


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of a batch: ``fixed + per_row * rows``."""

    fixed: float
    per_row: float
    max_rows: int = 1024

    def seconds(self, rows: _Array) -> _Array:
        """Of batches of so many rows."""
        return self.fixed + self.per_row * rows

    @property
    def capacity(self) -> float:
        """Rows a second of full batches one after the other."""
        return self.max_rows / (self.fixed + self.per_row * self.max_rows)


@dataclass(frozen=True, slots=True)
class Served:
    """Of each replica."""

    messages: _Array  # a second, each of the workers' rows
    batch_rows: _Array
    wait: _Array  # seconds of a message in the queue
    compute: _Array  # seconds of a batch


def served(workers: _Array, think: float, rows: int, cost: Cost) -> Served:
    """The means of replicas with so many workers each.

    Args:
        workers: of each replica.
        think: seconds that a worker's one core spends on a message; its lanes take turns.
        rows: of a message.
        cost: of a batch.
    """
    most = max(1, cost.max_rows // rows)  # messages of a batch: a message is never split
    lanes = 2 * workers
    batch = np.ones_like(lanes)
    wait = np.zeros_like(lanes)
    for _ in range(_ROUNDS):
        compute = cost.seconds(batch * rows)
        free = np.minimum(lanes / (think + wait + compute), workers / think)
        rate = np.minimum(free, most / cost.seconds(np.float64(most * rows)))
        crowded = rate < free
        # Where the server is what limits, one half of the lanes is computed while the other waits.
        wanted = np.clip(np.where(crowded, lanes / 2, rate * compute), 1.0, most)
        busy = np.minimum(1.0, rate * compute / batch)
        # Lanes of one batch come back together and wait for the rest of the next; with much else
        # to do they come at any time, and half of a batch is left on average.
        waits = np.maximum(compute - think, busy * compute / 2)
        waits = np.where(crowded, lanes / np.maximum(rate, 1e-12) - think - compute, waits)
        batch += _DAMPING * (wanted - batch)
        wait += _DAMPING * (np.maximum(waits, 0.0) - wait)
    return Served(rate, np.minimum(batch, np.maximum(lanes, 1.0)) * rows, wait, compute)
