"""Number of CPUs that this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path


def usable_cpus(root: Path = Path("/")) -> int:
    """Return the number of CPUs that this process may use, at least 1.

    A container or a batch system may allow fewer CPUs than the machine has, by an affinity mask or
    by a CPU quota of control groups (Linux, cgroup v2; ``cpu.max`` in the kernel's documentation).
    A quota is rounded up to whole CPUs.

    Args:
        root: folder that stands for ``/``, for tests.
    """
    allowed = getattr(os, "sched_getaffinity", None)  # only some systems have it
    cpus = len(allowed(0)) if allowed is not None else os.cpu_count() or 1
    return max(1, math.ceil(min(cpus, _quota(root))))


def _quota(root: Path) -> float:
    """Return the smallest quota of the process's control groups, in CPUs; infinity without one."""
    try:
        lines = (root / "proc/self/cgroup").read_text(errors="replace").splitlines()
    except OSError:
        return math.inf
    own = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "/")
    mount = root / "sys/fs/cgroup"
    group = Path(os.path.normpath(mount / own.lstrip("/")))
    # In a container the path may be the host's, and then only the mount itself has its files.
    groups = [each for each in (group, *group.parents) if each.is_relative_to(mount)] or [mount]
    return min(map(_quota_of, groups))


def _quota_of(group: Path) -> float:
    try:
        quota, period = (group / "cpu.max").read_text().split()
        return math.inf if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf  # without a limit, or not cgroup v2
