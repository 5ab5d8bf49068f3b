"""Benchmarks: blocks alternate, the first one does not count, and CPU time covers all processes."""

import os
import subprocess
import sys
import time

import pytest

from bench import blocks as measured
from bench.blocks import Block, Counts, Work
from bench.processes import cpu_clock, cpu_seconds, family_cpu_seconds, resident_bytes
from bench.soak import Figures
from bench.soak import summary as soak_summary

BURN = "import time\nwhile time.process_time() < 0.1: pass"


def block(positions: float, wall_s: float, **cpu_s: float) -> Block:
    return Block({"positions": positions}, wall_s, cpu_s)


def test_rates_are_medians_over_all_processes() -> None:
    blocks = [
        block(100, 1.0, client=1.0, server=1.0),
        block(300, 2.0, client=1.0, server=0.0),
        block(100, 1.0, client=0.5, server=1.5),
    ]
    assert measured.per_cpu_second(blocks, "positions") == 50
    assert measured.per_second(blocks, "positions") == 100
    assert measured.cpu_us_each(blocks, "positions", "server") == pytest.approx(1e4)
    assert measured.total(blocks, "positions") == 500


def test_a_ratio_compares_neighbours() -> None:
    """A machine that is three times slower in the second turn changes no ratio."""
    base = [block(300, 1.0, client=1.0), block(100, 1.0, client=1.0)]
    mine = [block(150, 1.0, client=1.0), block(50, 1.0, client=1.0)]
    assert measured.ratio(mine, base, "positions") == 0.5


async def test_paths_alternate_and_the_warm_up_does_not_count() -> None:
    turns: list[tuple[str, float]] = []

    def path(name: str) -> Work:
        async def work(seconds: float) -> Counts:
            turns.append((name, seconds))
            return {"turns": len(turns)}

        return work

    done = await measured.interleave({"a": path("a"), "b": path("b")}, 4.0, 2, cpu_clock())
    assert turns == [("a", 2.0), ("b", 2.0), ("a", 4.0), ("b", 4.0), ("a", 4.0), ("b", 4.0)]
    assert [one.counts["turns"] for one in done["a"]] == [3, 5]
    assert set(done["b"][0].cpu_s) == {"client"}


def test_the_clock_of_another_process_counts_as_its_own_does() -> None:
    before = time.process_time()
    between = cpu_seconds(os.getpid())
    assert before <= between <= time.process_time()


def test_a_family_keeps_the_time_of_children_that_are_gone() -> None:
    before = family_cpu_seconds(os.getpid()) - cpu_seconds(os.getpid())
    subprocess.run([sys.executable, "-I", "-S", "-c", BURN], check=True)
    after = family_cpu_seconds(os.getpid()) - cpu_seconds(os.getpid())
    assert after - before >= 0.05  # it used 0.1 s; ticks last 0.01 s


def test_a_process_that_has_ended_is_named() -> None:
    child = subprocess.Popen([sys.executable, "-I", "-S", "-c", ""])
    child.wait()
    with pytest.raises(ProcessLookupError, match=f"process {child.pid} has ended"):
        cpu_seconds(child.pid)


def test_resident_memory_grows_with_what_is_used() -> None:
    before, _ = resident_bytes(os.getpid())
    block_of_memory = b"x" * (64 << 20)
    after, most = resident_bytes(os.getpid())
    assert len(block_of_memory) // 2 <= after - before
    assert most >= after


def test_a_soak_gives_slopes_and_leaves_out_the_warm_up() -> None:
    grows = Figures(cpu_s=7.0, pids={1, 2})
    for second in range(0, 3600, 60):
        warm = 500.0 if second >= 360 else 90.0
        grows.samples.append((float(second), warm + second / 36, 12.0, 4.0))
    row = soak_summary(grows, 3600.0)
    assert row["megabytes_per_hour"] == pytest.approx(100.0)
    assert row["descriptors_per_hour"] == pytest.approx(0.0, abs=1e-9)
    assert row["first_megabytes"] == pytest.approx(500 + 840 / 36), "the mean of the first tenth"
    assert (row["cpu_s"], row["restarts"]) == (7.0, 1)
    assert soak_summary(Figures(samples=grows.samples[:30]), 3600.0) == {}, "it ended half-way"
