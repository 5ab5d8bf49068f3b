"""Parts of a service that live and end together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any


async def first_of(*parts: Coroutine[Any, Any, object]) -> None:
    """Run ``parts`` until the first of them ends, then cancel the others.

    An error is raised as it is, not in a group: who started the parts knows what it means.
    """
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def outlasting(task: Awaitable[None]) -> None:
    """Wait for a task that is not cancelled with the one who waits."""
    await asyncio.shield(task)
