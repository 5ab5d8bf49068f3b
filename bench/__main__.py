"""Run the benchmarks of speed with short settings, and print one table (``make bench``).

If the environment variable ``BENCH_OUT`` names a file, each row is appended to it as a line of
JSON. ``--only`` runs some of the benchmarks. ``--seconds`` and ``--blocks`` apply to all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.report import Row, positive
from bench.targets import figures

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = (
    "efficiency connect_four",
    "efficiency connect_four --precision int8",
    "efficiency connect_four --reuse",
    "efficiency go9",
    "efficiency go9 --precision int8",
    "efficiency tic_tac_toe",
    "tree connect_four",
    "tree go9",
    "tree tic_tac_toe",
    "tree go9 --memory",
    "rules connect_four",
    "rules go9",
    "replay connect_four",
    "replay go9 --games 300",
    "train connect_four",
    "train go9 --games 100",
    "serve --clients 1 8 --batch 1 256",
    "store",
)
TIMEOUT_SECONDS = 600  # for one benchmark


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks and print their figures.

    Returns:
        The exit status: 1 if a benchmark failed, else 0. Missed targets do not change it.
    """
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", nargs="+", metavar="BENCH", help="benchmarks, such as efficiency or tree [all]"
    )
    parser.add_argument(
        "--seconds", type=positive(float), default=1.0, help="seconds per block [1]"
    )
    parser.add_argument("--blocks", type=positive(int), default=3, help="blocks per path [3]")
    options = parser.parse_args(argv)
    chosen = [c for c in COMMANDS if not options.only or c.partition(" ")[0] in options.only]
    if not chosen:
        names = sorted({command.partition(" ")[0] for command in COMMANDS})
        parser.error(f"unknown benchmarks {options.only}: choose from {', '.join(names)}")
    out = os.environ.get("BENCH_OUT")
    rows: list[Row] = []
    failed: list[str] = []
    for command in chosen:
        new_rows = run(command, options.seconds, options.blocks)
        if new_rows is None:
            failed.append(command)
            continue
        rows += new_rows
        if out:
            with Path(out).open("a", encoding="utf-8") as file:
                file.writelines(f"{json.dumps(row)}\n" for row in new_rows)
    show_figures(rows)
    for command in failed:
        print(f"failed: python -m bench.{command}", file=sys.stderr)
    return 1 if failed else 0


def run(command: str, seconds: float, blocks: int) -> list[Row] | None:
    """Run one benchmark in its own process.

    Args:
        command: module below ``bench``, then its arguments.
        seconds: length of a block.
        blocks: number of blocks of each path.

    Returns:
        The benchmark's rows; None if it fails or takes longer than ``TIMEOUT_SECONDS``.
    """
    module, *arguments = command.split()
    lengths = ["--seconds", str(seconds), "--blocks", str(blocks), "--json"]
    print(f"bench.{command} ...", end="", file=sys.stderr, flush=True)
    start = time.monotonic()
    try:
        output = subprocess.run(
            [sys.executable, "-m", f"bench.{module}", *arguments, *lengths],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=True,
        ).stdout
    except subprocess.CalledProcessError as error:
        outcome = f"failed with status {error.returncode}"
    except subprocess.TimeoutExpired:
        outcome = "timed out"
    else:
        print(f" {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        return [json.loads(line) for line in output.splitlines()]
    print(f" {outcome} after {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return None


def show_figures(rows: Sequence[Row]) -> None:
    """Print a table of the figures in the rows, with their targets."""
    table = Table(title="zerofleet, measured on this machine")
    table.add_column("figure")
    for heading in ("measured", "target", ""):
        table.add_column(heading, justify="right")
    for figure, value in figures(rows):
        target = verdict = ""
        if figure.target is not None:
            sign = "at most" if figure.is_limit else "at least"
            target = f"{sign} {figure.target:{figure.form}}"
            verdict = "met" if figure.is_met(value) else "missed"
        table.add_row(figure.label, f"{value:{figure.form}}", target, verdict)
    Console(width=max(110, Console().width)).print(table)


if __name__ == "__main__":
    sys.exit(main())
