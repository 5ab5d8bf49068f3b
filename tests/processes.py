"""Wait for processes that have nobody to collect them."""

import time
from collections.abc import Iterable

import psutil


def runs(pid: int) -> bool:
    """Return whether a process still runs; a zombie has ended.

    An orphan that ends stays a zombie where process 1 collects none, as in many containers.
    """
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_ended(pids: Iterable[int]) -> None:
    """Wait until none of the processes runs.

    Raises:
        AssertionError: One of them still runs after two minutes.
    """
    left = list(pids)
    deadline = time.monotonic() + 120
    while left := [pid for pid in left if runs(pid)]:
        assert time.monotonic() < deadline, f"still running: {left}"
        time.sleep(0.01)
