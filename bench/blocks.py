"""Run blocks of several paths in turn, and compute medians of rates and ratios.

A machine is never completely idle. So the compared paths alternate, a ratio compares two blocks of
the same turn, and the result is the median of these ratios. The first block of each path is a
warm-up and does not count.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.processes import CpuClock

Counts = Mapping[str, float]
"""Counts of a block by name, such as positions, games or messages."""

Work = Callable[[float], Awaitable[Counts]]
"""Runs a path for about this many seconds and returns its counts."""

WARM_UP = 0.5  # length of the warm-up block, as a share of the other blocks' length


@dataclass(frozen=True, slots=True)
class Block:
    """The result of one block: counts, wall-clock seconds, and CPU seconds by process."""

    counts: Counts
    wall_s: float
    cpu_s: Mapping[str, float]

    @property
    def all_cpu_s(self) -> float:
        """CPU seconds of all processes together."""
        return sum(self.cpu_s.values())


async def interleave(
    works: Mapping[str, Work], seconds: float, blocks: int, clock: CpuClock
) -> dict[str, list[Block]]:
    """Run every path in turn, ``blocks`` times after a warm-up block of each.

    Args:
        works: paths by name.
        seconds: length of a block.
        blocks: number of blocks of each path, without the warm-up.
        clock: CPU clock of all processes that work for a path.

    Returns:
        The blocks of each path, in order.
    """
    done: dict[str, list[Block]] = {name: [] for name in works}
    for work in works.values():
        await work(seconds * WARM_UP)
    for _ in range(blocks):
        for name, work in works.items():
            done[name].append(await _timed(work, seconds, clock))
    return done


async def _timed(work: Work, seconds: float, clock: CpuClock) -> Block:
    start, cpu_before = time.perf_counter(), clock()
    counts = await work(seconds)
    cpu_after = clock()
    used = {name: cpu_after[name] - cpu_before[name] for name in cpu_before}
    return Block(counts, time.perf_counter() - start, used)


def per_cpu_second(blocks: Sequence[Block], what: str) -> float:
    """Return the median over blocks of the count ``what`` per CPU second of all processes."""
    return statistics.median(block.counts[what] / block.all_cpu_s for block in blocks)


def per_second(blocks: Sequence[Block], what: str) -> float:
    """Return the median over blocks of the count ``what`` per second of wall-clock time."""
    return statistics.median(block.counts[what] / block.wall_s for block in blocks)


def cpu_us_each(blocks: Sequence[Block], what: str, process: str) -> float:
    """Return the median over blocks of one process' CPU microseconds for each ``what``."""
    return statistics.median(
        1e6 * block.cpu_s[process] / max(block.counts[what], 1) for block in blocks
    )


def ratio(
    blocks: Sequence[Block],
    base: Sequence[Block],
    what: str,
    rate: Callable[[Sequence[Block], str], float] = per_cpu_second,
) -> float:
    """Return the median over turns of a path's rate divided by the rate of another path.

    Args:
        blocks: blocks of the path.
        base: blocks of the path to compare with, as many as ``blocks``.
        what: name of the count.
        rate: how the rate of a block is computed.
    """
    pairs = zip(blocks, base, strict=True)
    return statistics.median(rate([one], what) / rate([other], what) for one, other in pairs)


def total(blocks: Sequence[Block], what: str) -> float:
    """Return the sum over blocks of the count ``what``."""
    return sum(block.counts[what] for block in blocks)
