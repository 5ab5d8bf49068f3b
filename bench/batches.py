"""Mean work of an inference replica for its workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class BatchCost:
    """Seconds of a batch: ``fixed + per_row * rows``."""

    fixed: float
    per_row: float
    max_rows: int = 1024

    def seconds(self, rows: float) -> float:
        """Return the seconds of a batch with this many rows."""
        return self.fixed + self.per_row * rows

    @property
    def capacity(self) -> float:
        """Rows a second of full batches one after the other."""
        return self.max_rows / self.seconds(self.max_rows)


class Served(NamedTuple):
    """Means of one inference replica: messages a second, seconds in the queue, and of a batch."""

    messages: float
    batch_rows: float
    wait: float
    compute: float


def served(workers: float, think: float, rows: int, cost: BatchCost) -> Served:
    """The means of a replica with so many workers.

    Each worker has two engine loops: one's message is at the server while the other's tree works.
    That is a closed network: a loop thinks, waits for the batch that runs, is computed with all
    that waited beside it, and thinks again. The batcher adds no delay and takes what there is, up
    to the most rows of a batch. tests/unit/test_bench_scale_sim.py holds these means against the
    network played through message by message.

    Args:
        workers: of the replica.
        think: seconds that a worker's one core spends on a message; its loops take turns.
        rows: of a message.
        cost: of a batch.
    """
    most = max(1, cost.max_rows // rows)  # messages of a batch: a message is never split
    loops = 2 * workers
    rate, batch, wait, compute = 0.0, 1.0, 0.0, cost.seconds(rows)
    for _ in range(30):
        compute = cost.seconds(batch * rows)
        free = min(loops / (think + wait + compute), workers / think)
        rate = min(free, most / cost.seconds(most * rows))
        if rate < free:  # the server limits: half of the loops is computed, the other half waits
            wanted = loops / 2
            waits = loops / rate - think - compute
        else:
            wanted = rate * compute
            # Loops of one batch come back together and wait for the rest of the next; with much
            # else to do they come at any time, and half of a batch is left on average.
            waits = max(compute - think, min(1.0, wanted / batch) * compute / 2)
        batch += 0.5 * (min(max(wanted, 1.0), most) - batch)
        wait += 0.5 * (max(waits, 0.0) - wait)
    return Served(rate, min(batch, max(loops, 1.0)) * rows, wait, compute)
