"""What a run has cost since its first game: wall seconds and CPU seconds of every process."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from zerofleet.local.data_folder import write_json

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Usage:
    """Seconds since the first game, over all the times the run was up."""

    wall_seconds: float
    cpu_seconds: float


class UsageMeter:
    """Counts from the first game on, and remembers in a file, so that a resumed run goes on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._before = _stored(path)
        self._start = _now()
        self.usage = self._before

    def read(self, *, games: int) -> Usage:
        """The cost up to now; while there is no game yet, it starts anew with each reading."""
        now = _now()
        if games == 0:
            self._start = now
        self.usage = Usage(
            self._before.wall_seconds + now.wall_seconds - self._start.wall_seconds,
            self._before.cpu_seconds + now.cpu_seconds - self._start.cpu_seconds,
        )
        if games > 0:
            with contextlib.suppress(OSError):  # the disk is full: keep the last one
                write_json(self._path, asdict(self.usage))
        return self.usage


def tree_cpu_seconds(root: int) -> float:
    """CPU seconds of a process, its descendants, and those descendants that have ended.

    Linux counts an ended child with its parent once it is waited for, so the sum over the living
    tree holds everything. Elsewhere only this process and its ended children are seen.
    """
    if not _PROC.is_dir():
        spent = [
            resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        ]
        return sum(usage.ru_utime + usage.ru_stime for usage in spent)
    ticks: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (fields := _stat_fields(entry)):
            pid, parent = int(entry.name), int(fields[1])
            ticks[pid] = sum(int(field) for field in fields[11:15])  # utime stime cutime cstime
            children.setdefault(parent, []).append(pid)
    total, pending = 0, [root]
    while pending:
        pid = pending.pop()
        total += ticks.get(pid, 0)
        pending += children.get(pid, [])
    return total / _TICKS_PER_SECOND


def _stat_fields(process: Path) -> list[str]:
    """The fields after the command's name, which may hold spaces; empty when it is gone."""
    try:
        line = (process / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return line.rpartition(")")[2].split()


def _now() -> Usage:
    return Usage(time.monotonic(), tree_cpu_seconds(os.getpid()))


def _stored(path: Path) -> Usage:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return Usage(float(content["wall_seconds"]), float(content["cpu_seconds"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Usage(0.0, 0.0)  # a damaged file is no reason to fail: counting starts again
