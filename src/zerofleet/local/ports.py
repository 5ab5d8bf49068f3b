"""Ports for the servers of this machine."""

from __future__ import annotations

import contextlib
import itertools
import random
import socket

LOOPBACK = "127.0.0.1"
# Below the range out of which the kernel serves outgoing connections: a server binds its port
# seconds after it was chosen, and again after a restart, and no connection may take it meanwhile.
_PORTS = range(20_000, 32_000)
_untried = itertools.cycle(random.sample(_PORTS, len(_PORTS)))


def free_port() -> int:
    """A free TCP port of 127.0.0.1 that this process has not handed out before.

    Raises:
        OSError: every port of the range is taken.
    """
    for port in itertools.islice(_untried, len(_PORTS)):
        with contextlib.suppress(OSError):
            try_port(port)
            return port
    raise OSError(f"no free port from {_PORTS.start} to {_PORTS.stop - 1} on {LOOPBACK}")


def try_port(port: int) -> None:
    """Bind a port of 127.0.0.1 for a moment.

    Raises:
        OSError, OverflowError: it is in use, not allowed, or none.
    """
    with socket.socket() as probe:
        # As servers do: a port whose last connections are still closing counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((LOOPBACK, port))
