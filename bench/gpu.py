"""All measurements of one machine with a GPU, within a time limit, as one JSON file.

``python -m bench.gpu FOLDER --seconds 400`` runs the parts one after the other. Each has its own
limit. If a part fails, takes too long or has no time left, its error says so, and the next part
runs. ``scripts/gpu_check.sh`` calls it; ``FOLDER/gpu.json`` has all rows.
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

ROOT = Path(__file__).resolve().parents[1]
_STOP_SECONDS = 20.0
_LEAST_SECONDS = 20.0  # with less time left a part does not begin


@dataclass(frozen=True, slots=True)
class Part:
    """A benchmark.

    Args:
        command: module and arguments, after ``python -m``.
        limit: the most seconds that it may take.
    """

    command: tuple[str, ...]
    limit: float


@dataclass(frozen=True, slots=True)
class PartResult:
    """The rows of a part, or the error if it has none."""

    command: str
    seconds: float
    rows: list[Row] = field(default_factory=list[Row])
    error: str = ""


def parts(workers: int) -> list[Part]:
    """Return the parts, the most important first.

    Args:
        workers: self-play workers of a whole run.
    """
    return [
        _train("connect_four", "4x48", 40),
        _train("go9", "10x128", 45),
        _train("chess", "10x128", 60),
        _loop("connect_four", "4x48", workers, 90, "trainer.min_positions=2000"),
        _loop("go9", "10x128", workers, 100, "search.num_simulations=64"),
        # Few simulations, or no game would end within the limit.
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
    size = ("--games", "512", "--sessions", "2", "--workers", str(os.cpu_count() or 1))
    return ("bench.efficiency", game, "--provider", "cuda", *size, "--json")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and write the file after each part."""
    options = parse(argv)
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    deadline, done = time.monotonic() + options.seconds, list[PartResult]()
    for part in parts(max(1, (os.cpu_count() or 1) - 2)):
        done.append(measured(part, deadline - time.monotonic()))
        print(f"{done[-1].seconds:5.0f} s  {done[-1].command}  {done[-1].error}", flush=True)
        found = {"gpu": gpu_name(), "cores": os.cpu_count(), "parts": [asdict(d) for d in done]}
        (folder / "gpu.json").write_text(json.dumps(found, indent=1))
    show(done)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    found = argparse.ArgumentParser(
        prog="python -m bench.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("folder", type=Path, help="for gpu.json")
    found.add_argument("--seconds", type=positive(float), default=400.0, help="for all parts [400]")
    return found.parse_args(argv)


def measured(part: Part, left: float) -> PartResult:
    """Run a part within its limit and the time that is left."""
    command = " ".join(part.command)
    if left < _LEAST_SECONDS:
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
        output, complaint = process.communicate(timeout=limit)
        lines = complaint.split("\r")[-1].strip().splitlines()
        error = "" if process.returncode == 0 else lines[-1] if lines else "failed"
    except subprocess.TimeoutExpired:
        output, error = _ended(process), f"not measured: it took longer than {limit:.0f} s"
    return PartResult(command, round(time.monotonic() - start, 1), rows_of(output), error)


def _ended(process: subprocess.Popen[str]) -> str:
    """End a part and its whole fleet; return what it printed."""
    process.terminate()
    try:
        return process.communicate(timeout=_STOP_SECONDS)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


def rows_of(output: str) -> list[Row]:
    """Return the lines that are JSON objects."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def gpu_name() -> str | None:
    """Return the name of the first GPU and its driver; None without nvidia-smi."""
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
    """Print a table of the main figures."""
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
