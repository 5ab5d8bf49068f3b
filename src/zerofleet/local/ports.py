"""Ports for the servers of this machine."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import itertools
import os
import random
import socket
import tempfile
from pathlib import Path

LOOPBACK = "127.0.0.1"
# Below the range out of which the kernel serves outgoing connections: a server binds its port
# seconds after it was chosen, and again after a restart, and no connection may take it meanwhile.
_PORTS = range(20_000, 32_000)
PAGE_PORTS = range(8080, 8180)
"""Ports for the page of a run, in the order in which they are tried."""
_untried = itertools.cycle(random.sample(_PORTS, len(_PORTS)))


def free_port() -> int:
    """A TCP port of 127.0.0.1 that is free and that was given to no one else.

    Raises:
        OSError: every port of the range is taken, or there is no folder for temporary files.
    """
    for port in itertools.islice(_untried, len(_PORTS)):
        with contextlib.suppress(OSError):
            take_port(port)
            return port
    raise OSError(f"no free port from {_PORTS.start} to {_PORTS.stop - 1} on {LOOPBACK}")


def take_port(port: int) -> None:
    """Claim a TCP port of 127.0.0.1 until this process ends.

    Other processes of this user cannot claim it, even before the server binds it or while the
    server restarts.

    Raises:
        OSError, OverflowError: the port is in use, claimed, not allowed, or not a port.
    """
    try:
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except BlockingIOError as error:
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE)) from error
    with socket.socket() as probe:
        # As servers do: a port whose last connections are still closing counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((LOOPBACK, port))


def answers(address: str) -> bool:
    """Return whether a server accepts connections at ``HOST:PORT``."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


@functools.cache
def _claims() -> int:
    """An empty file of this user, open until the process ends: to claim a port is to lock its byte.

    The kernel gives the locks back when the process is gone, however it ended.
    """
    path = Path(tempfile.gettempdir()) / f"zerofleet-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
