"""Cut connections whose server no longer answers, so that no call waits for ever.

A statement's timeout is kept by the server, and TCP keep-alive is answered by its kernel, so a
server process that is frozen escapes both. This watches from our side.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Generator

_LOOK_SECONDS = 1.0


class Watchdog:
    """Cuts a connection that is in use for too long; its user gets an error and goes on.

    Args:
        seconds: the longest use that is bearable.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadlines: dict[int, float] = {}  # by file descriptor
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def watch(self, descriptor: int) -> Generator[None]:
        """Watch over a socket while this is entered."""
        with self._lock:
            self._deadlines[descriptor] = time.monotonic() + self._seconds
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._deadlines.pop(descriptor, None)

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            with self._lock:  # held, so that no other thread closes the descriptor meanwhile
                now = time.monotonic()
                for descriptor, deadline in self._deadlines.items():
                    if now > deadline:
                        _cut(descriptor)


def _cut(descriptor: int) -> None:
    # A duplicate, because closing the socket object must not close the descriptor.
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        connection.shutdown(socket.SHUT_RDWR)
