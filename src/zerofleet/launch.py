"""Become another program that dies with its parent; run by path, because it needs only the library.

``python -I -S launch.py PARENT_PID DEATH_SIGNAL UID:GID|- DATA_BYTES|- PROGRAM ARGUMENT...``

It is a process of its own and not a function between fork and exec: the parent has threads, and a
fork of a process with threads may only exec. It costs about 10 ms.
"""

import ctypes
import os
import resource
import sys

_PR_SET_PDEATHSIG = 1
_CANNOT_EXECUTE = 126
_WATCH_SECONDS = 1.0


def leave_with(parent: int) -> None:
    """End this process within about a second of its parent's death, from a thread of its own.

    For Python processes that are started without this program. They may be left with minutes of
    work, or hold a lock, when the parent is killed.

    Args:
        parent: process id of the parent.
    """
    import threading  # the program starts faster without these two
    import time

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Switch to the user, ask for the signal, then become the program."""
    parent, death_signal, account, data_bytes, *command = sys.argv[1:]
    if data_bytes != "-":
        most = int(data_bytes)
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    if account != "-":
        uid, gid = map(int, account.split(":"))
        try:
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)
        except OSError as error:
            sys.stderr.write(f"cannot become user number {uid}: {error.strerror}\n")
            sys.exit(_CANNOT_EXECUTE)
    if sys.platform == "linux":  # after the change of user, which resets the signal
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(death_signal))
        if os.getppid() != int(parent):
            sys.exit(0)  # the parent died before the kernel was asked for the signal
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"cannot execute {command[0]}: {error.strerror}\n")
        sys.exit(_CANNOT_EXECUTE)


if __name__ == "__main__":
    main()
