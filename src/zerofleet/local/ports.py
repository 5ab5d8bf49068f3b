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
    """A TCP port of 127.0.0.1 on which nobody listens and that this process gave to nobody else.

    Raises:
        OSError: every port of the range is taken.
    """
    for port in itertools.islice(_untried, len(_PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((LOOPBACK, port))
                return port
    raise OSError(f"no free port from {_PORTS.start} to {_PORTS.stop - 1} on {LOOPBACK}")
