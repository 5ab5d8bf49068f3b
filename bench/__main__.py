"""All benchmarks with short settings, one table at the end: what ``make bench`` runs.

``BENCH_OUT`` names a file that gets every row as a line of JSON. ``--only`` runs some of them;
``--seconds`` and ``--blocks`` set the lengths of all.
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
LONGEST_SECONDS = 600


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print; the exit status is 1 when a benchmark failed, whatever the figures are."""
    found = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--only", nargs="+", metavar="BENCH", help="such as efficiency or tree")
    found.add_argument("--seconds", type=positive(float), default=1.0, help="of a block [1]")
    found.add_argument("--blocks", type=positive(int), default=3, help="of each path [3]")
    options = found.parse_args(argv)
    chosen = [c for c in COMMANDS if not options.only or c.partition(" ")[0] in options.only]
    if not chosen:
        names = sorted({command.partition(" ")[0] for command in COMMANDS})
        found.error(f"no benchmark is called {options.only}: there are {', '.join(names)}")
    out = os.environ.get("BENCH_OUT")
    rows: list[Row] = []
    failed: list[str] = []
    for command in chosen:
        done = run(command, options.seconds, options.blocks)
        if done is None:
            failed.append(command)
            continue
        rows += done
        if out:
            with Path(out).open("a", encoding="utf-8") as file:
                file.writelines(f"{json.dumps(row)}\n" for row in done)
    show_figures(rows)
    for command in failed:
        print(f"failed: python -m bench.{command}", file=sys.stderr)
    return 1 if failed else 0


def run(command: str, seconds: float, blocks: int) -> list[Row] | None:
    """The rows of one benchmark, each in a process of its own; None when it fails."""
    module, *arguments = command.split()
    lengths = ["--seconds", str(seconds), "--blocks", str(blocks), "--json"]
    print(f"bench.{command} ...", end="", file=sys.stderr, flush=True)
    began = time.monotonic()
    try:
        said = subprocess.run(
            [sys.executable, "-m", f"bench.{module}", *arguments, *lengths],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            timeout=LONGEST_SECONDS,
            check=True,
        ).stdout
    except subprocess.CalledProcessError as error:
        end = f"status {error.returncode}"
    except subprocess.TimeoutExpired:
        end = "too long"
    else:
        print(f" {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        return [json.loads(line) for line in said.splitlines()]
    print(f" {end} after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return None


def show_figures(rows: Sequence[Row]) -> None:
    """Show the figures and their targets."""
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
