"""Run a command on a machine that is busy: ``python scripts/under_load.py 8 make test``.

That number of loops computes at the same time, each as important to the kernel as the command
itself. They end with the command, however it ends.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable

_DIE_WITH_THE_PARENT = 1  # PR_SET_PDEATHSIG of prctl, on Linux


def dying_with_us() -> Callable[[], object]:
    """Return a function for a child to call, so that the kernel kills it when this process dies."""
    if sys.platform != "linux":
        return lambda: None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_DIE_WITH_THE_PARENT, signal.SIGKILL)


def main() -> int:
    """The command's exit status; 2 where nothing can be run."""
    if len(sys.argv) < 3 or not sys.argv[1].isdigit():
        print("usage: python scripts/under_load.py LOOPS COMMAND [ARGUMENT]...", file=sys.stderr)
        return 2
    loop = [sys.executable, "-I", "-S", "-c", "while True: pass"]
    loops: list[subprocess.Popen[bytes]] = []
    try:
        loops += [
            subprocess.Popen(loop, preexec_fn=dying_with_us()) for _ in range(int(sys.argv[1]))
        ]
        print(f"{len(loops)} busy loops on {os.cpu_count()} cores", flush=True)
        return subprocess.run(sys.argv[2:], check=False).returncode
    finally:
        for each in loops:
            each.kill()
            each.wait()


if __name__ == "__main__":
    sys.exit(main())
