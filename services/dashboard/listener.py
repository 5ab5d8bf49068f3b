"""Accept the page's connections: a bounded number, and none for long that sends no request.

uvicorn alone would wait forever for a request's head, take connections until no file can be opened
any more, and then write a line for each that it cannot take.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, cast

import structlog
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from zerofleet.service import first_of

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

_log = structlog.get_logger()

HEAD_SECONDS = 10.0
"""A connection is closed that has not sent the whole head of a request for so long."""
MOST_CONNECTIONS = 1_024
MOST_OF_ADDRESS = 256
_HEAD_BYTES = 64 << 10
_RESERVE = 128  # descriptors for stores, files and libraries
_FEWEST = 16
_RETRY_SECONDS = 0.5
_LOG_SECONDS = 60.0


class PageListener(uvicorn.Server):
    """A uvicorn server over one socket, whose connections are bounded; it leaves signals alone.

    When there are as many connections as may be, a new one takes the place of the oldest that is
    not in the middle of a request and no WebSocket. If there is none, the new one is closed.

    Args:
        config: of the server.
        sock: listens; not closed here. Serve with ``serve([])``.
        most: connections at once; fewer if the process may not open that many files.
        most_of_address: connections from one address at once.
        head_seconds: to send the whole head of a request.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        sock: socket.socket,
        *,
        most: int = MOST_CONNECTIONS,
        most_of_address: int = MOST_OF_ADDRESS,
        head_seconds: float = HEAD_SECONDS,
    ) -> None:
        super().__init__(config)
        self._sock = sock
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        room = most if files == resource.RLIM_INFINITY else max(files - _RESERVE, _FEWEST)
        self._most = min(most, room)
        self._most_of_address = min(most_of_address, self._most)
        self._head_seconds = head_seconds
        self._open: dict[str, list[_Connection]] = {}  # oldest first, by address
        self._next_line = 0.0

    async def main_loop(self) -> None:
        """Accept until the server should exit."""
        await first_of(super().main_loop(), self._accept())

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to the service."""
        yield

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        self._sock.setblocking(False)
        while True:
            await asyncio.sleep(0)  # with a full backlog, accepting alone would not let others run
            try:
                sock, peer = await loop.sock_accept(self._sock)
            except ConnectionAbortedError:
                continue
            except OSError as error:  # no file can be opened, or there is no memory
                self._complain("cannot_accept", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            address = str(peer[0])
            if not self._make_room(address):
                sock.close()
                self._complain("too_many_connections", address=address)
                continue
            connection = _Connection(sock)
            self._open.setdefault(address, []).append(connection)
            connection.entering = asyncio.create_task(self._enter(connection))

    async def _enter(self, connection: _Connection) -> None:
        """Begin to serve a connection, over TLS where the page is HTTPS."""

        def protocol() -> _PageProtocol:
            return _PageProtocol(
                connection,
                self._head_seconds,
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )

        tls = self.config.ssl
        with contextlib.suppress(OSError):  # of a handshake that fails or takes too long
            await asyncio.get_running_loop().connect_accepted_socket(
                protocol,
                connection.sock,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else self._head_seconds,
            )

    def _make_room(self, address: str) -> bool:
        """Whether there is room for a connection; if need be, close one that is idle."""
        mine = self._still_open(address)
        if len(mine) >= self._most_of_address:
            return _close_idle(mine)
        if sum(map(len, self._open.values())) < self._most:
            return True
        for each in tuple(self._open):
            self._still_open(each)
        if sum(map(len, self._open.values())) < self._most:
            return True
        by_number = sorted(self._open.values(), key=len, reverse=True)
        return any(_close_idle(connections) for connections in by_number)

    def _still_open(self, address: str) -> list[_Connection]:
        """Connections of an address; forgets those that are closed."""
        connections = [each for each in self._open.get(address, ()) if each.is_open]
        if connections:
            self._open[address] = connections
        else:
            self._open.pop(address, None)
        return connections

    def _complain(self, event: str, **words: object) -> None:
        """Write a warning, at most one a minute."""
        now = time.monotonic()
        if now >= self._next_line:
            self._next_line = now + _LOG_SECONDS
            _log.warning(event, **words)


class _Connection:
    """One connection, from the moment that it is accepted."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.idle = True
        """Whether it is no WebSocket and no request of it is being answered."""
        self.entering: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        """Whether it holds a descriptor."""
        return self.sock.fileno() >= 0

    def close(self) -> None:
        """Cut it off."""
        if self.transport is not None:
            self.transport.abort()
        elif self.entering is not None:
            self.entering.cancel()


def _close_idle(connections: list[_Connection]) -> bool:
    """Close the oldest idle connection; whether there was one."""
    for connection in connections:
        if connection.idle:
            connection.close()
            connections.remove(connection)
            return True
    return False


class _PageProtocol(HttpToolsProtocol):
    """HTTP on one connection, which is cut off when a request's head is too slow or too long."""

    def __init__(
        self,
        connection: _Connection,
        head_seconds: float,
        **given: Any,  # noqa: ANN401 - of uvicorn's own types
    ) -> None:
        super().__init__(**given)
        self._connection = connection
        self._head_seconds = head_seconds
        self._head_timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._upgraded = False

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - of asyncio or of TLS
        """Wait for the first head."""
        super().connection_made(transport)
        self._connection.transport = transport
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        self._head_bytes += len(data)
        super().data_received(data)
        self._watch()

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over; socket.io and uvicorn send pings on it."""
        self._upgraded = True
        super().handle_websocket_upgrade()

    def on_response_complete(self) -> None:
        """Wait for the next head; uvicorn closes the connection earlier if nothing comes at all."""
        super().on_response_complete()
        self._watch()

    def _watch(self) -> None:
        """Start to wait for a head, or stop it."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # uvicorn types it without None
        answered = cycle is None or cycle.response_complete
        self._connection.idle = answered and not self._upgraded
        if not self._connection.idle:
            self._stop_waiting()
        elif self._head_bytes > _HEAD_BYTES:
            self.transport.abort()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(self._head_seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
