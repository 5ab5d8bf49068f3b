"""Run a fleet for hours, and measure whether memory, descriptors or threads of a process grow.

``python -m bench.soak runs/connect_four.toml`` starts ``zerofleet up`` in a temporary folder, or in
the folder of ``--data``. It reads the figures of each process every few seconds. For each process
it prints the first value, the last value and the slope between them, by least squares.

The first fifth of the time does not count, because windows fill and caches warm up. Memory is the
unique set size (USS), so Postgres' shared buffers count once at most.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

from bench.processes import cpu_seconds
from bench.report import Row, positive, run_main, show
from zerofleet.errors import ZerofleetError

COLUMNS = {
    "process": ("process", ""),
    "CPU-s": ("cpu_s", ",.0f"),
    "first MB": ("first_megabytes", ",.0f"),
    "last MB": ("last_megabytes", ",.0f"),
    "peak MB": ("most_megabytes", ",.0f"),
    "MB/h": ("megabytes_per_hour", "+,.1f"),
    "descriptors": ("last_descriptors", ",.0f"),
    "descriptors/h": ("descriptors_per_hour", "+,.1f"),
    "threads": ("last_threads", ",.0f"),
    "threads/h": ("threads_per_hour", "+,.1f"),
    "restarts": ("restarts", "d"),
}
_WARM_UP = 0.2  # share of the time
_STOP_SECONDS = 90.0
_MANY = ("postgres",)  # names of programs with many processes, which start and end all the time


class RunEndedError(ZerofleetError):
    """The fleet ended before the measurement did."""


@dataclass(slots=True)
class Figures:
    """Figures of one service or program over time."""

    samples: list[tuple[float, float, float, float]] = field(
        default_factory=list[tuple[float, float, float, float]]
    )
    """Samples: seconds since the start, MB, file descriptors and threads."""
    cpu_s: float = 0.0
    pids: set[int] = field(default_factory=set[int])
    """PIDs of all its processes so far."""


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print a row for each service or program."""
    # Without a handler, SIGTERM would end this process and leave `zerofleet up` running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parse(argv)
    with tempfile.TemporaryDirectory(prefix="zerofleet-bench-") as folder:
        rows = measure(options, options.data or Path(folder))
    title = f"{options.run_file}, {options.minutes:g} minutes"
    show(rows, title, COLUMNS, as_json=options.json)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run_file", metavar="RUN.toml", type=Path, help="run file")
    parser.add_argument(
        "--minutes", type=positive(float), default=60.0, help="minutes of the measurement [60]"
    )
    parser.add_argument(
        "--every", type=positive(float), default=5.0, help="seconds between two samples [5]"
    )
    parser.add_argument(
        "--data", metavar="FOLDER", type=Path, help="folder for the run's data and log [temporary]"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    return parser.parse_args(argv)


def measure(options: argparse.Namespace, folder: Path) -> list[Row]:
    """Run the fleet and sample it; return a row for each service or program.

    Args:
        options: the command line.
        folder: folder for the data and the log of the run.

    Raises:
        RunEndedError: the fleet ended by itself; the message has the end of its log.
    """
    figures: dict[str, Figures] = {}
    seconds = 60 * options.minutes
    start = time.monotonic()
    with running_fleet(options.run_file, folder) as fleet:
        while (now := time.monotonic() - start) < seconds:
            if fleet.poll() is not None:
                log = (folder / "up.log").read_text(errors="replace")[-2000:]
                raise RunEndedError(f"zerofleet up ended after {now:.0f} s: {log}")
            with contextlib.suppress(psutil.NoSuchProcess):  # the next poll reports it
                sample_processes(fleet.pid, now, figures)
            print(f"{now:.0f} s of {seconds:.0f}", end="\r", file=sys.stderr, flush=True)
            time.sleep(options.every)
    return [
        {"bench": "soak", "run": str(options.run_file), "process": name, **row}
        for name, each in sorted(figures.items())
        if (row := summary(each, seconds))
    ]


@contextlib.contextmanager
def running_fleet(
    run_file: Path, folder: Path, *options: str
) -> Generator[subprocess.Popen[bytes]]:
    """Run ``zerofleet up`` during the ``with`` block, and stop it afterwards.

    Args:
        run_file: the run file.
        folder: folder for its ``data`` and its log, ``up.log``.
        options: further options of the command.
    """
    folder.mkdir(parents=True, exist_ok=True)
    arguments = ("up", str(run_file), "--data", str(folder / "data"), *options)
    with (folder / "up.log").open("wb") as log:
        fleet = subprocess.Popen(
            [sys.executable, "-P", "-m", "zerofleet.cli", *arguments],
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches it only through this process, and only once
        )
        try:
            yield fleet
        finally:
            fleet.send_signal(signal.SIGINT)
            try:
                fleet.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:  # no reason to lose the measurements
                fleet.send_signal(signal.SIGINT)  # the second one kills its children
                fleet.wait()


def sample_processes(pid: int, now: float, figures: dict[str, Figures]) -> None:
    """Add one sample of a process and all its descendants.

    Args:
        pid: PID of ``zerofleet up``.
        now: seconds since the start.
        figures: figures by service or program; a sample sums over processes of the same name.
    """
    sums: dict[str, tuple[float, float, float]] = {}
    cpu: defaultdict[str, float] = defaultdict(float)
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    for process in family:
        with contextlib.suppress(psutil.Error, ProcessLookupError, FileNotFoundError):
            name = "up" if process.pid == pid else service_of(process)
            before = sums.get(name, (0.0, 0.0, 0.0))
            megabytes = process.memory_full_info().uss / 1e6
            found = (megabytes, float(process.num_fds()), float(process.num_threads()))
            cpu[name] += cpu_seconds(process.pid)
            sums[name] = (before[0] + found[0], before[1] + found[1], before[2] + found[2])
            if name not in _MANY:
                figures.setdefault(name, Figures()).pids.add(process.pid)
    for name, row in sums.items():
        known = figures.setdefault(name, Figures())
        known.samples.append((now, *row))
        known.cpu_s = max(known.cpu_s, cpu[name])


def service_of(process: psutil.Process) -> str:
    """Return the service that a process runs, or the name of its program."""
    words = process.cmdline()
    services = [word for word in words if word.startswith("zerofleet.services.")]
    return services[0].removeprefix("zerofleet.services.") if services else process.name()


def summary(figures: Figures, seconds: float) -> Row:
    """Return the first value, last value and slope of each figure, without the warm-up.

    First and last values are means over a tenth of the samples.

    Args:
        figures: figures of one service or program.
        seconds: duration of the measurement.

    Returns:
        The fields of its row; empty if it was running for less than half of the time.
    """
    samples = np.array([sample for sample in figures.samples if sample[0] >= _WARM_UP * seconds])
    if len(samples) < 3 or samples[-1, 0] - samples[0, 0] < seconds / 2:
        return {}
    hours = samples[:, 0] / 3600
    row: Row = {
        "cpu_s": figures.cpu_s,
        "minutes": 60 * float(hours[-1] - hours[0]),
        "most_megabytes": float(samples[:, 1].max()),
        "restarts": max(0, len(figures.pids) - 1),
    }
    tenth = math.ceil(len(samples) / 10)
    for column, name in enumerate(("megabytes", "descriptors", "threads"), start=1):
        row[f"first_{name}"] = float(samples[:tenth, column].mean())
        row[f"last_{name}"] = float(samples[-tenth:, column].mean())
        row[f"{name}_per_hour"] = float(np.polyfit(hours, samples[:, column], 1)[0])
    return row


if __name__ == "__main__":
    run_main(main)
