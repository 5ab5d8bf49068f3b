"""CPU time and memory of processes, this one and others, as Linux counts them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

from zerofleet.errors import ConfigError

CpuClock = Callable[[], Mapping[str, float]]
"""CPU-seconds so far, by what the process is to the benchmark."""

_REAPED = (13, 14)  # fields cutime and cstime of /proc/PID/stat, counted behind the name


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, all threads, those that ended included.

    Raises:
        ConfigError: the system has no clock for other processes.
    """
    clock = (~pid << 3) | 2  # as clock_getcpuclockid(3) makes it: to the nanosecond, not in ticks
    try:
        return time.clock_gettime(clock)
    except OSError as error:
        if not psutil.pid_exists(pid):
            raise ProcessLookupError(f"process {pid} has ended") from error
        raise ConfigError(
            f"the CPU time of process {pid} cannot be read ({error.strerror}): run the benchmarks "
            "on Linux"
        ) from error


def family_cpu_seconds(pid: int) -> float:
    """The same of a process and all its descendants, those that ended included."""
    total = 0.0
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            total += cpu_seconds(process.pid) + _reaped_seconds(process.pid)
    return total


def _reaped_seconds(pid: int) -> float:
    """Return the CPU seconds of ended children that were waited for, theirs included."""
    behind_name = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(int(behind_name[field]) for field in _REAPED) / os.sysconf("SC_CLK_TCK")


def cpu_clock(
    pids: Mapping[str, int] | None = None, families: Mapping[str, int] | None = None
) -> CpuClock:
    """A clock of this process, called ``client``, and of others.

    Args:
        pids: processes by name.
        families: processes by name that are counted with their descendants.
    """
    singles, trees = dict(pids or {}), dict(families or {})

    def read() -> Mapping[str, float]:
        return {
            "client": time.process_time(),
            **{name: cpu_seconds(pid) for name, pid in singles.items()},
            **{name: family_cpu_seconds(pid) for name, pid in trees.items()},
        }

    return read


def resident_bytes(pid: int) -> tuple[int, int]:
    """Memory of a process that is in RAM: now, and the most there ever was."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in status)
    now, most = (int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
    return now, most
