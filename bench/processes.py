"""CPU time and memory of this process and of others, from Linux."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

from zerofleet.errors import ConfigError

CpuClock = Callable[[], Mapping[str, float]]
"""Return the CPU-seconds so far, by the process's role in the benchmark."""

_REAPED = (13, 14)  # places of cutime and cstime in /proc/PID/stat, counted after the name


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of a process, in seconds, with ended threads.

    Raises:
        ProcessLookupError: the process has ended.
        ConfigError: the system has no clock for other processes.
    """
    # The clock of clock_getcpuclockid(3) counts nanoseconds, /proc only ticks.
    clock = (~pid << 3) | 2
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
    """Return the CPU-seconds of a process and all its descendants, with ended ones.

    Raises:
        psutil.NoSuchProcess: the process has ended.
        ConfigError: the system has no clock for other processes.
    """
    total = 0.0
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            total += cpu_seconds(process.pid) + _reaped_seconds(process.pid)
    return total


def _reaped_seconds(pid: int) -> float:
    """Return the CPU-seconds of ended children that the process has waited for.

    Linux adds the time of their own ended children.
    """
    after_name = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(int(after_name[field]) for field in _REAPED) / os.sysconf("SC_CLK_TCK")


def cpu_clock(
    pids: Mapping[str, int] | None = None, families: Mapping[str, int] | None = None
) -> CpuClock:
    """Return a clock of this process, which is called ``client``, and of other processes.

    Args:
        pids: PIDs by name.
        families: PIDs by name of processes that are counted with all their descendants.
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
    """Return the current and the peak resident memory of a process, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in status)
    now, peak = (int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
    return now, peak
