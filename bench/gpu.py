"""Run all measurements of a machine with a GPU within a time limit.

``python -m bench.gpu FOLDER --seconds 400`` runs the parts one after the other, each with its own
time limit. If a part fails, takes too long or has no time left, its result has an error, and the
next part runs. ``FOLDER/gpu.json`` has the rows of all parts. ``scripts/gpu_check.sh`` runs this
benchmark.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.report import WIDTH, Row, positive
from zerofleet.cpus import usable_cpus

ROOT = Path(__file__).resolve().parents[1]
_STOP_SECONDS = 20.0  # from SIGTERM to SIGKILL
_MIN_SECONDS = 20.0  # a part does not start with less time left


@dataclass(frozen=True, slots=True)
class Part:
    """One benchmark with its arguments.

    Args:
        command: module and arguments, after ``python -m``.
        limit: time limit in seconds.
    """

    command: tuple[str, ...]
    limit: float


@dataclass(frozen=True, slots=True)
class PartResult:
    """Result of a part.

    Args:
        command: module and arguments.
        seconds: time that the part took.
        rows: the rows that it printed, also if it failed later.
        error: error message; empty if the part succeeded.
    """

    command: str
    seconds: float
    rows: list[Row] = field(default_factory=list[Row])
    error: str = ""


def parts(workers: int) -> list[Part]:
    """Return the parts, the most important first.

    Args:
        workers: number of self-play workers in ``bench.loop``.
    """
    return [
        _train("connect_four", "4x48", 40),
        _train("go9", "10x128", 45),
        _train("chess", "10x128", 60),
        _loop("connect_four", "4x48", workers, 90, "trainer.min_positions=2000"),
        _loop("go9", "10x128", workers, 100, "search.num_simulations=64"),
        # With more simulations, no game would end within the limit.
        _loop("chess", "10x128", workers, 110, "search.num_simulations=16"),
        *(
            Part((*_efficiency(game), "--precision", precision), 60)
            for game in ("connect_four", "go9")
            for precision in ("fp16", "fp32")
        ),
    ]


def _train(game: str, network: str, limit: float) -> Part:
    lengths = ("--seconds", "1", "--blocks", "3", "--games", "200")
    command = ("bench.train", game, "--network", network, "--batch", "1024", *lengths, "--json")
    return Part(command, limit)


def _loop(game: str, network: str, workers: int, limit: float, *keys: str) -> Part:
    blocks, channels = network.split("x")
    settings = (
        f"network.blocks={blocks}",
        f"network.channels={channels}",
        "trainer.batch_size=1024",
        "trainer.publish_every_steps=100",
        "selfplay.games_per_engine=64",
        *keys,
    )
    options = ("--workers", str(workers), "--models", "2", "--seconds", "25", "--json")
    run = ("bench.loop", f"runs/{game}.toml", "--provider", "cuda", *options)
    return Part((*run, *(part for key in settings for part in ("--set", key))), limit)


def _efficiency(game: str) -> tuple[str, ...]:
    size = ("--games", "512", "--sessions", "2", "--workers", str(usable_cpus()))
    return ("bench.efficiency", game, "--provider", "cuda", *size, "--json")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the parts, write the file after each, and print a table at the end."""
    options = parse(argv)
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    deadline, done = time.monotonic() + options.seconds, list[PartResult]()
    for part in parts(max(1, usable_cpus() - 2)):
        done.append(measured(part, deadline - time.monotonic()))
        print(f"{done[-1].seconds:5.0f} s  {done[-1].command}  {done[-1].error}", flush=True)
        parts_done = [asdict(result) for result in done]
        content = {"gpu": gpu_name(), "cores": usable_cpus(), "parts": parts_done}
        (folder / "gpu.json").write_text(json.dumps(content, indent=1))
    show(done)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="folder for gpu.json")
    parser.add_argument(
        "--seconds", type=positive(float), default=400.0, help="time limit of all parts [400]"
    )
    return parser.parse_args(argv)


def measured(part: Part, left: float) -> PartResult:
    """Run a part until it ends or a time limit ends it.

    Args:
        part: the part.
        left: seconds left for all parts. With fewer than 20 the part does not run.

    Returns:
        The part's result. This function does not raise if the part fails.
    """
    command = " ".join(part.command)
    if left < _MIN_SECONDS:
        return PartResult(command, 0.0, error="not measured: no time left")
    start, limit = time.monotonic(), min(part.limit, left)
    process = subprocess.Popen(
        [sys.executable, "-m", *part.command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=limit)
        lines = errors.split("\r")[-1].strip().splitlines()
        error = "" if process.returncode == 0 else lines[-1] if lines else "failed"
    except subprocess.TimeoutExpired:
        output, error = _stop(process), f"not measured: it took longer than {limit:.0f} s"
    return PartResult(command, round(time.monotonic() - start, 1), rows_of(output), error)


def _stop(process: subprocess.Popen[str]) -> str:
    """Stop a part, or kill its process group after 20 s, and return its standard output."""
    process.terminate()
    try:
        return process.communicate(timeout=_STOP_SECONDS)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


def rows_of(output: str) -> list[Row]:
    """Return the JSON objects of the lines that begin with ``{``."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def gpu_name() -> str | None:
    """Return name, driver version and memory of each GPU, a line each; None without nvidia-smi."""
    command = [
        "nvidia-smi",
        "--query-gpu=name,driver_version,memory.total",
        "--format=csv,noheader",
    ]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def show(done: Sequence[PartResult]) -> None:
    """Print a table with the main figures and the errors of all parts."""
    table = Table(title=gpu_name() or "no GPU")
    for heading in ("part", "path", "figure", "value"):
        table.add_column(heading, justify="right" if heading == "value" else "left")
    for each in done:
        name = " ".join(each.command.split()[:2])
        for row in each.rows:
            path = str(row.get("path") or row.get("provider") or row.get("network") or "")
            for figure in _FIGURES:
                value = row.get(figure)
                if isinstance(value, int | float):
                    table.add_row(name, path, figure.replace("_", " "), f"{value:,.3g}")
        if each.error:
            table.add_row(name, "", each.error, "")
    Console(width=WIDTH).print(table)


_FIGURES = (
    "steps_per_second",
    "ratio_to_bare",
    "predictions_per_second",
    "alone_predictions_per_second",
    "alone_steps_per_second",
    "bottleneck_share",
    "gpu_busy",
    "batch_fill",
    "queue_wait_per_compute",
    "positions_per_second",
)


if __name__ == "__main__":
    main()
