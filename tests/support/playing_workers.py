"""Self-play workers that play while a test looks on."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from zerofleet.services.selfplay.worker import Worker

DEADLINE = 240.0


@contextlib.asynccontextmanager
async def at_play(worker: Worker) -> AsyncIterator[Callable[[Callable[[], bool]], Awaitable[None]]]:
    """A worker at play; what is given waits for a condition while it lives."""
    stop = asyncio.Event()
    task = asyncio.create_task(worker.run(stop))

    async def until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE):
            while not condition():
                assert not task.done(), task.result()
                await asyncio.sleep(0.01)

    try:
        yield until
        stop.set()
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
