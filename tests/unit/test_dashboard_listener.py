"""Connections to the page: how many there may be, and for how long one may say nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from websockets.asyncio.client import connect

from zerofleet.secrets.authority import make_authority, make_certificate
from zerofleet.services.dashboard.gate import PageListener
from zerofleet.services.dashboard.service import bound

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
HALF = REQUEST[:20]
LONG = 600.0
"""Seconds that no test waits."""


class Page:
    """An app that answers at once, or when it is told to, and a server before it."""

    def __init__(self) -> None:
        self.answering = asyncio.Event()
        self.answering.set()
        self.asked = asyncio.Semaphore(0)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            while (message := await receive())["type"] == "websocket.receive":
                await send({"type": "websocket.send", "text": message["text"]})
            return
        self.asked.release()
        await self.answering.wait()
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})

    @contextlib.asynccontextmanager
    async def served(
        self, folder: Path | None = None, most: int = 100, of_address: int = 100, head: float = LONG
    ) -> AsyncGenerator[int]:
        """Its port."""
        config = uvicorn.Config(
            self,
            log_config=None,
            lifespan="off",
            ssl_certfile=folder and folder / "tls.crt",
            ssl_keyfile=folder and folder / "tls.key",
        )
        with bound("127.0.0.1:0") as sock:
            server = PageListener(
                config, sock, most=most, most_of_address=of_address, head_seconds=head
            )
            serving = asyncio.create_task(server.serve([]))
            try:
                yield sock.getsockname()[1]
            finally:
                self.answering.set()
                server.force_exit = server.should_exit = True
                await serving


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
WRITERS: list[asyncio.StreamWriter] = []
"""Writers of a test's connections, closed at its end."""


async def opened(port: int, *parts: bytes) -> Connection:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    WRITERS.append(writer)
    for part in parts:
        writer.write(part)
    await writer.drain()
    return reader, writer


async def is_closed(connection: Connection) -> bool:
    """Wait for the server to close it."""
    with contextlib.suppress(ConnectionResetError):
        return await connection[0].read() == b""
    return True


async def answer(connection: Connection) -> bytes:
    return (await connection[0].readuntil(b"ok")).splitlines()[0]


def run(test: Any) -> None:
    async def within_two_minutes() -> None:
        try:
            async with asyncio.timeout(120):
                await test()
        finally:
            while WRITERS:
                WRITERS.pop().close()

    asyncio.run(within_two_minutes())


def test_a_connection_without_a_whole_request_head_is_closed() -> None:
    async def visit() -> None:
        async with Page().served(head=0.1) as port:
            assert await is_closed(await opened(port))
            assert await is_closed(await opened(port, HALF))
        # Time enough for the first head on a machine that stalls.
        async with Page().served(head=2.0) as port:
            second = await opened(port, REQUEST + HALF)
            assert await answer(second) == b"HTTP/1.1 200 OK"
            assert await is_closed(second)

    run(visit)


def test_a_request_that_takes_long_to_answer_and_a_websocket_stay_open() -> None:
    async def visit() -> None:
        page = Page()
        page.answering.clear()
        async with page.served(head=1.0) as port, connect(f"ws://127.0.0.1:{port}") as live:
            slow = await opened(port, REQUEST)
            await page.asked.acquire()
            for _ in range(2):  # by the time that these are closed, those would be too
                assert await is_closed(await opened(port, HALF))
            page.answering.set()
            assert await answer(slow) == b"HTTP/1.1 200 OK"
            await live.send("still here")
            assert await live.recv() == "still here"

    run(visit)


def test_a_request_head_without_an_end_is_cut_off() -> None:
    async def visit() -> None:
        async with Page().served() as port:
            reader, writer = await opened(port, HALF)
            with contextlib.suppress(ConnectionError):
                for _ in range(40):
                    writer.write(b"a: " + b"x" * 4_096 + b"\r\n")
                    await writer.drain()
            assert await is_closed((reader, writer))

    run(visit)


@pytest.mark.parametrize("limits", [{"most": 4}, {"of_address": 4}])
def test_silent_connections_make_room_for_those_that_ask(limits: dict[str, int]) -> None:
    async def visit() -> None:
        async with Page().served(**limits) as port:
            silent = [await opened(port, HALF) for _ in range(12)]
            asking = await opened(port, REQUEST)
            assert await answer(asking) == b"HTTP/1.1 200 OK"
            for connection in silent[:9]:
                assert await is_closed(connection)

    run(visit)


def test_answers_that_are_under_way_are_not_cut_off_for_others() -> None:
    async def visit() -> None:
        page = Page()
        page.answering.clear()
        async with page.served(most=2) as port:
            under_way = [await opened(port, REQUEST) for _ in range(2)]
            for _ in under_way:
                await page.asked.acquire()
            assert await is_closed(await opened(port))
            page.answering.set()
            for connection in under_way:
                assert await answer(connection) == b"HTTP/1.1 200 OK"

    run(visit)


def test_the_process_keeps_files_for_its_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    async def visit() -> None:
        async with Page().served(most=1_000, of_address=1_000) as port:
            silent = [await opened(port) for _ in range(20)]
            assert await answer(await opened(port, REQUEST)) == b"HTTP/1.1 200 OK"
            assert await is_closed(silent[0])

    monkeypatch.setattr(
        "zerofleet.services.dashboard.gate.resource.getrlimit", lambda _: (130, 130)
    )
    run(visit)


def test_a_tls_handshake_that_does_not_begin_is_given_up(tmp_path: Path) -> None:
    async def visit() -> None:
        pair = make_certificate(
            make_authority("test"), "page", ["localhost"], server=True, client=False
        )
        (tmp_path / "tls.crt").write_bytes(pair.certificate)
        (tmp_path / "tls.key").write_bytes(pair.key)
        async with Page().served(tmp_path, most=1) as port:
            silent = await opened(port)
            await opened(port)
            assert await is_closed(silent)
        async with Page().served(tmp_path, head=0.1) as port:
            assert await is_closed(await opened(port))

    run(visit)
