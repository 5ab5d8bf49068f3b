"""Measure ``zerofleet export``: positions per second, CPU time and memory.

``python -m bench.export --folder DIR`` fills a real Postgres, and then exports all games once in
each format. The exported files go into the folder and are removed afterwards.

A folder that is already filled is used as it is, whatever the sizes. Without ``--folder``, the
database is temporary.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.filled_run import FilledRun, filled
from bench.games_played import RUN
from bench.processes import family_cpu_seconds
from bench.report import Row, game_option, parser, positive, run_main, show
from bench.stores import bench_folder, pid_of
from zerofleet.database.connection import connect
from zerofleet.errors import ZerofleetError
from zerofleet.local.postgres import EmbeddedPostgres

FORMATS = ("parquet", "npz", "csv", "parquet --planes", "npz --planes")
COLUMNS = {
    "format": ("format", ""),
    "positions": ("positions", ",d"),
    "seconds": ("seconds", ",.1f"),
    "positions/s": ("positions_per_second", ",d"),
    "positions/CPU-s": ("positions_per_cpu_second", ",d"),
    "command, us/position": ("command_us_per_position", ".1f"),
    "Postgres, us/position": ("postgres_us_per_position", ".1f"),
    "command, peak MB": ("megabytes", ",d"),
    "bytes/position": ("bytes_per_position", ".1f"),
}


class ExportFailedError(ZerofleetError):
    """``zerofleet export`` failed."""


def main(argv: Sequence[str] | None = None) -> None:
    """Fill the database, measure each format, and print a row for each."""
    options = parse(argv)
    sizes = FilledRun(options.games, sys.maxsize, days=3, models=8)
    with contextlib.ExitStack() as stack:
        folder = options.folder or stack.enter_context(bench_folder())
        postgres = stack.enter_context(filled(folder, options.workload, sizes))
        rows = [measure(postgres, folder, each, options) for each in options.formats]
    show(rows, f"{options.workload.name}, export", COLUMNS, as_json=options.json)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    found = parser("bench.export", __doc__, game=False, blocks=False)
    game_option(found)
    found.add_argument("--games", type=positive(int), default=5_000, help="games to fill in [5000]")
    found.add_argument(
        "--folder", type=Path, help="folder of the database, filled on first use [temporary]"
    )
    found.add_argument(
        "--formats",
        nargs="+",
        default=FORMATS,
        metavar="FORMAT",
        help="formats, each with its options, such as 'npz --planes' [all]",
    )
    return found.parse_args(argv)


def measure(
    postgres: EmbeddedPostgres, folder: Path, command: str, options: argparse.Namespace
) -> Row:
    """Export all games once.

    Args:
        postgres: a filled database.
        folder: gets the run file and, during the export, the files.
        command: a format and its options, after ``--format``.
        options: the command line of the benchmark.

    Returns:
        The row of the format. CPU times include the command and Postgres.

    Raises:
        ExportFailedError: the command failed.
    """
    run_file, files = folder / "run.toml", folder / "files"
    run_file.write_text(f'name = "{RUN}"\n\n[game]\nname = "{options.workload.spec.name}"\n')
    with contextlib.closing(connect(postgres.url("console"))) as connection:
        cursor = connection.cursor()
        cursor.execute("SET statement_timeout = 0; SELECT count(*) FROM positions")
        [(positions,)] = cursor.fetchall()
    before = family_cpu_seconds(pid_of(postgres))
    start = time.monotonic()
    arguments = ["--folder", str(files), "--database-url", postgres.url("console")]
    arguments += ["--format", *command.split()]
    child = subprocess.Popen(
        [sys.executable, "-m", "zerofleet.cli", "export", str(run_file), *arguments],
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - start
    if child.returncode:
        raise ExportFailedError(
            f"zerofleet export --format {command} failed with status {child.returncode}"
        )
    server = family_cpu_seconds(pid_of(postgres)) - before
    written = sum(path.stat().st_size for path in files.rglob("*") if path.is_file())
    shutil.rmtree(files)
    cpu = used.ru_utime + used.ru_stime
    return {
        "bench": "export",
        "game": options.workload.name,
        "format": command,
        "positions": positions,
        "seconds": round(seconds, 2),
        "positions_per_second": round(positions / seconds),
        "positions_per_cpu_second": round(positions / (cpu + server)),
        "command_us_per_position": round(1e6 * cpu / positions, 2),
        "postgres_us_per_position": round(1e6 * server / positions, 2),
        "megabytes": round(used.ru_maxrss / 1024),
        "bytes_per_position": round(written / positions, 1),
    }


if __name__ == "__main__":
    run_main(main)
