"""Blocks of several paths in turn, and what their medians say.

A machine is never as idle as it looks. Paths that are to be compared therefore alternate, a ratio
is taken between neighbours and only then its median, and the first block of each path, which warms
up, does not count.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.processes import CpuClock

Counts = Mapping[str, float]
"""Counts of a block by name: positions, games, messages."""

Work = Callable[[float], Awaitable[Counts]]
"""Goes on for about so many seconds."""

WARM_UP = 0.5  # length, as a share of the others'


@dataclass(frozen=True, slots=True)
class Block:
    """One path for a while."""

    counts: Counts
    wall_s: float
    cpu_s: Mapping[str, float]  # by process

    @property
    def all_cpu_s(self) -> float:
        """CPU seconds of all processes."""
        return sum(self.cpu_s.values())


async def interleave(
    works: Mapping[str, Work], seconds: float, blocks: int, clock: CpuClock
) -> dict[str, list[Block]]:
    """Run every path in turn, ``blocks`` times after the one that warms up.

    Args:
        works: the paths by name.
        seconds: of a block.
        blocks: of each path.
        clock: of all processes that may work for a path.
    """
    done: dict[str, list[Block]] = {name: [] for name in works}
    for work in works.values():
        await work(seconds * WARM_UP)
    for _ in range(blocks):
        for name, work in works.items():
            done[name].append(await _timed(work, seconds, clock))
    return done


async def _timed(work: Work, seconds: float, clock: CpuClock) -> Block:
    wall, cpu = time.perf_counter(), clock()
    counts = await work(seconds)
    after = clock()
    used = {name: after[name] - cpu[name] for name in cpu}
    return Block(counts, time.perf_counter() - wall, used)


def per_cpu_second(blocks: Sequence[Block], what: str) -> float:
    """Median over blocks, CPU-seconds of all processes."""
    return statistics.median(block.counts[what] / block.all_cpu_s for block in blocks)


def per_second(blocks: Sequence[Block], what: str) -> float:
    """Median over blocks, on the clock on the wall."""
    return statistics.median(block.counts[what] / block.wall_s for block in blocks)


def cpu_us_each(blocks: Sequence[Block], what: str, process: str) -> float:
    """Median over blocks: microseconds of one process' CPU for each of what was done."""
    return statistics.median(
        1e6 * block.cpu_s[process] / max(block.counts[what], 1) for block in blocks
    )


def ratio(
    blocks: Sequence[Block],
    base: Sequence[Block],
    what: str,
    rate: Callable[[Sequence[Block], str], float] = per_cpu_second,
) -> float:
    """Median of the ratios turn by turn."""
    pairs = zip(blocks, base, strict=True)
    return statistics.median(rate([one], what) / rate([other], what) for one, other in pairs)


def total(blocks: Sequence[Block], what: str) -> float:
    """Sum over blocks."""
    return sum(block.counts[what] for block in blocks)
