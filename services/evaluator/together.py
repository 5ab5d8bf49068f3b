"""Parts of one piece of work, at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


async def together(*parts: Coroutine[Any, Any, _T]) -> list[_T]:
    """Run all parts; when one fails, the others are not left running and its error is raised."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
