"""A fleet over hours: does any process take more memory, descriptors or threads as time passes?

``python -m bench.soak runs/connect_four.toml`` starts ``zerofleet up`` in a folder of its own (one
that stays with ``--data``), looks at each process every few seconds, and prints for each what it
had at first and at last and the slope between, by least squares. The first fifth is left out:
windows fill, caches warm up. Memory is what a process has for itself (USS), so that Postgres'
shared buffers count once at most.
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
    "MB at first": ("first_megabytes", ",.0f"),
    "at last": ("last_megabytes", ",.0f"),
    "at most": ("most_megabytes", ",.0f"),
    "MB/h": ("megabytes_per_hour", "+,.1f"),
    "descriptors": ("last_descriptors", ",.0f"),
    "each hour": ("descriptors_per_hour", "+,.1f"),
    "threads": ("last_threads", ",.0f"),
    "an hour": ("threads_per_hour", "+,.1f"),
    "restarts": ("restarts", "d"),
}
_WARM_UP = 0.2
_STOP_SECONDS = 90.0


class RunEndedError(ZerofleetError):
    """The fleet ended before the time was over."""


@dataclass(slots=True)
class Figures:
    """Figures of one process over time: rows of seconds, megabytes, descriptors and threads."""

    looks: list[tuple[float, float, float, float]] = field(
        default_factory=list[tuple[float, float, float, float]]
    )
    cpu_s: float = 0.0
    pids: set[int] = field(default_factory=set[int])


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the fleet goes with us
    options = parse(argv)
    with tempfile.TemporaryDirectory(prefix="zerofleet-bench-") as folder:
        rows = measure(options, options.data or Path(folder))
    title = f"{options.run_file}, {options.minutes:g} minutes"
    show(rows, title, COLUMNS, as_json=options.json)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    found = argparse.ArgumentParser(
        prog="python -m bench.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("run_file", metavar="RUN.toml", type=Path)
    found.add_argument("--minutes", type=positive(float), default=60.0, help="[60]")
    found.add_argument("--every", type=positive(float), default=5.0, help="seconds [5]")
    found.add_argument("--data", metavar="FOLDER", type=Path, help="[one that is deleted]")
    found.add_argument("--json", action="store_true", help="one object a line")
    return found.parse_args(argv)


def measure(options: argparse.Namespace, folder: Path) -> list[Row]:
    """Run the fleet and look at it; a row for each of its processes.

    Raises:
        RunEndedError: it ended by itself; the message ends with what it said.
    """
    figures: dict[str, Figures] = {}
    seconds = 60 * options.minutes
    start = time.monotonic()
    with running_fleet(options.run_file, folder) as fleet:
        while (now := time.monotonic() - start) < seconds:
            if fleet.poll() is not None:
                said = (folder / "up.log").read_text(errors="replace")[-2000:]
                raise RunEndedError(f"zerofleet up ended after {now:.0f} s: {said}")
            with contextlib.suppress(psutil.NoSuchProcess):  # the next poll tells
                look(fleet.pid, now, figures)
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
    """Run ``zerofleet up`` during the block, with its data and its log in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    arguments = ("up", str(run_file), "--data", str(folder / "data"), *options)
    with (folder / "up.log").open("wb") as log:
        fleet = subprocess.Popen(
            [sys.executable, "-P", "-m", "zerofleet.cli", *arguments],
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is ours to pass on, once
        )
        try:
            yield fleet
        finally:
            fleet.send_signal(signal.SIGINT)
            try:
                fleet.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:  # the measurements still count
                fleet.send_signal(signal.SIGINT)  # the second one kills its children
                fleet.wait()


def look(pid: int, now: float, figures: dict[str, Figures]) -> None:
    """Add one look at a process and all its descendants.

    Args:
        pid: of ``zerofleet up``.
        now: seconds since the start.
        figures: by name of the process; those of one name are added up.
    """
    sums: dict[str, tuple[float, float, float]] = {}
    cpu: defaultdict[str, float] = defaultdict(float)
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    for process in family:
        with contextlib.suppress(psutil.Error, ProcessLookupError, FileNotFoundError):
            name = "up" if process.pid == pid else service_of(process)
            before = sums.get(name, (0.0, 0.0, 0.0))
            megabytes = process.memory_full_info().uss / 1e6
            now_has = (megabytes, float(process.num_fds()), float(process.num_threads()))
            cpu[name] += cpu_seconds(process.pid)
            sums[name] = (
                before[0] + now_has[0],
                before[1] + now_has[1],
                before[2] + now_has[2],
            )
            if name not in _MANY:
                figures.setdefault(name, Figures()).pids.add(process.pid)
    for name, row in sums.items():
        found = figures.setdefault(name, Figures())
        found.looks.append((now, *row))
        found.cpu_s = max(found.cpu_s, cpu[name])


_MANY = ("postgres",)  # names of many processes, which come and go


def service_of(process: psutil.Process) -> str:
    """Return the service that a process runs, or the name of its program."""
    words = process.cmdline()
    services = [word for word in words if word.startswith("zerofleet.services.")]
    return services[0].removeprefix("zerofleet.services.") if services else process.name()


def summary(figures: Figures, seconds: float) -> Row:
    """First, last and slope of each figure, the warm-up left out.

    Args:
        figures: of one process.
        seconds: how long the fleet was looked at.

    Returns:
        Nothing for a process that was not there for most of that time.
    """
    looks = np.array([look for look in figures.looks if look[0] >= _WARM_UP * seconds])
    if len(looks) < 3 or looks[-1, 0] - looks[0, 0] < seconds / 2:
        return {}
    hours = looks[:, 0] / 3600
    row: Row = {
        "cpu_s": figures.cpu_s,
        "minutes": 60 * float(hours[-1] - hours[0]),
        "most_megabytes": float(looks[:, 1].max()),
        "restarts": max(0, len(figures.pids) - 1),
    }
    tenth = math.ceil(len(looks) / 10)
    for column, name in enumerate(("megabytes", "descriptors", "threads"), start=1):
        row[f"first_{name}"] = float(looks[:tenth, column].mean())
        row[f"last_{name}"] = float(looks[-tenth:, column].mean())
        row[f"{name}_per_hour"] = float(np.polyfit(hours, looks[:, column], 1)[0])
    return row


if __name__ == "__main__":
    run_main(main)
