"""Measure how fast Postgres stores games from several workers, and the CPU time of both ends.

``python -m bench.store`` starts a real Postgres that syncs every commit to disk. Processes submit
batches of games, as a worker's writer does. Blocks of one worker and of several alternate.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import ExitStack

import psycopg2

from bench import blocks as measured
from bench.blocks import Block, Counts, Work
from bench.children import Child, ask_all
from bench.games_played import run_of
from bench.processes import cpu_clock
from bench.report import Row, game_option, parser, positive, run_main, show
from bench.stores import bench_folder, pid_of, postgres_of
from bench.workloads import Workload

COLUMNS = {
    "workers": ("workers", "d"),
    "games/s": ("games_per_second", ",d"),
    "positions/s": ("positions_per_second", ",d"),
    "positions/CPU-s": ("positions_per_cpu_second", ",d"),
    "worker, us/position": ("worker_us_per_position", ".1f"),
    "Postgres, us/position": ("postgres_us_per_position", ".1f"),
    "bytes/position": ("bytes_per_position", ",d"),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print a row for each number of workers."""
    options = parse(argv)
    rows = asyncio.run(measure(options.workload, options.workers, options.seconds, options.blocks))
    show(rows, f"{options.workload.name}, games into Postgres", COLUMNS, as_json=options.json)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    command_line = parser("bench.store", __doc__, game=False)
    command_line.set_defaults(seconds=2.0)
    game_option(command_line)
    command_line.add_argument(
        "--workers",
        type=positive(int),
        nargs="+",
        default=[1, 4],
        help="numbers of concurrent workers [1 4]",
    )
    return command_line.parse_args(argv)


async def measure(
    workload: Workload, workers: Sequence[int], seconds: float, blocks: int
) -> list[Row]:
    """Interleave blocks of all numbers of workers; return a row for each.

    Args:
        workload: the game.
        workers: numbers of workers.
        seconds: seconds of a block.
        blocks: blocks of each number of workers.

    Raises:
        ChildGoneError: a worker ended.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(bench_folder())
        postgres = stack.enter_context(postgres_of(run_of(workload), folder))
        url = postgres.url("worker")
        children = [
            stack.enter_context(Child("bench.store_worker", url, workload.name, str(seed)))
            for seed in range(max(workers))
        ]
        for child in children:
            child.receive()

        def storing(count: int) -> Work:
            return lambda seconds: store(children[:count], seconds)

        done = await measured.interleave(
            {str(count): storing(count) for count in workers},
            seconds,
            blocks,
            cpu_clock(
                {f"worker {number}": child.pid for number, child in enumerate(children)},
                {"postgres": pid_of(postgres)},
            ),
        )
        size = bytes_per_position(postgres.url("owner"))
    return [summary(workload, count, done[str(count)], size) for count in workers]


async def store(children: Sequence[Child], seconds: float) -> Counts:
    """Let workers store games concurrently; return the sums of ``games`` and ``positions``.

    Args:
        children: the workers; the call blocks the event loop until all have responded.
        seconds: seconds of the block.
    """
    return ask_all(children, str(seconds))


def bytes_per_position(url: str) -> int:
    """Return the bytes on disk per position, with indexes and its share of the game's row.

    Args:
        url: URL of the database.
    """
    connection = psycopg2.connect(url)
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT (pg_total_relation_size('games') + (SELECT sum(bytes) FROM "
                "positions_on_disk)) / greatest(1, (SELECT count(*) FROM positions))"
            )
            return int(cursor.fetchall()[0][0])
    finally:
        connection.close()


def summary(workload: Workload, workers: int, blocks: list[Block], size: int) -> Row:
    """Return the row of a number of workers, with medians over its blocks.

    Args:
        workload: the game.
        workers: number of workers.
        blocks: their blocks without the warm-up.
        size: bytes on disk per position.
    """
    postgres = measured.cpu_us_each(blocks, "positions", "postgres")
    all_processes = 1e6 / measured.per_cpu_second(blocks, "positions")
    return {
        "bench": "store",
        "game": workload.name,
        "workers": workers,
        "games_per_second": round(measured.per_second(blocks, "games")),
        "positions_per_second": round(measured.per_second(blocks, "positions")),
        "positions_per_cpu_second": round(measured.per_cpu_second(blocks, "positions")),
        "worker_us_per_position": round(all_processes - postgres, 1),
        "postgres_us_per_position": round(postgres, 1),
        "bytes_per_position": size,
    }


if __name__ == "__main__":
    run_main(main)
