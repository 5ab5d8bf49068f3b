"""A queueing model of an inference replica: mean throughput, batch size and waiting time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class BatchCost:
    """Time that a replica needs for a batch: ``fixed + per_row * rows``.

    Args:
        fixed: seconds that every batch takes.
        per_row: seconds for each row, which is one position.
        max_rows: the most rows of a batch.
    """

    fixed: float
    per_row: float
    max_rows: int = 1024

    def seconds(self, rows: float) -> float:
        """Return how many seconds a batch with this many rows takes."""
        return self.fixed + self.per_row * rows

    @property
    def capacity(self) -> float:
        """Rows per second if full batches follow one another."""
        return self.max_rows / self.seconds(self.max_rows)


class Served(NamedTuple):
    """Means of one inference replica.

    Args:
        messages: messages answered per second.
        batch_rows: rows in a batch.
        wait: seconds that a message waits in the queue.
        compute: seconds that the computation of a batch takes.
    """

    messages: float
    batch_rows: float
    wait: float
    compute: float


def served(workers: float, think: float, rows: int, cost: BatchCost) -> Served:
    """Return the means of a replica in equilibrium.

    The model is a closed queueing network. Each worker has two engine loops: while one waits for
    the server, the other searches. A loop thinks, then waits for the running batch to end. Its
    message is computed together with all others that waited, and the loop thinks again. The batcher
    adds no delay. It takes all messages that wait, up to ``cost.max_rows``.

    ``tests/unit/test_bench_scale_sim.py`` compares these means with a simulation of each message.

    Args:
        workers: number of workers that use the replica.
        think: seconds of CPU time that a worker needs to make a message. It has one core, so its
            two loops take turns.
        rows: rows of a message.
        cost: time that a batch takes.
    """
    most = max(1, cost.max_rows // rows)  # messages in a batch; a message is never split
    loops = 2 * workers
    rate, batch, wait, compute = 0.0, 1.0, 0.0, cost.seconds(rows)
    for _ in range(30):  # a fixed-point iteration with a damping of one half
        compute = cost.seconds(batch * rows)
        free = min(loops / (think + wait + compute), workers / think)
        rate = min(free, most / cost.seconds(most * rows))
        if rate < free:  # the server is the bottleneck: it computes half of the loops, half wait
            wanted = loops / 2
            waits = loops / rate - think - compute
        else:
            wanted = rate * compute
            # If loops think for less time than a batch takes, loops of one batch return together
            # and wait until the next batch ends. Otherwise they return at random times, and on
            # average half of a batch is left to compute.
            waits = max(compute - think, min(1.0, wanted / batch) * compute / 2)
        batch += 0.5 * (min(max(wanted, 1.0), most) - batch)
        wait += 0.5 * (max(waits, 0.0) - wait)
    return Served(rate, min(batch, max(loops, 1.0)) * rows, wait, compute)
