"""An address that outlives the server behind it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable


@contextlib.asynccontextmanager
async def forwarding(port_now: Callable[[], int]) -> AsyncGenerator[int]:
    """An address that stays while the server behind it comes back elsewhere; its port."""
    pumps: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            while content := await reader.read(65_536):
                writer.write(content)
                await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection("127.0.0.1", port_now())
        except OSError:
            writer.close()
            return
        for source, sink in ((reader, there[1]), (there[0], writer)):
            task = asyncio.create_task(pump(source, sink))
            pumps.add(task)
            task.add_done_callback(pumps.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(pumps):
            task.cancel()
        await asyncio.gather(*pumps)
