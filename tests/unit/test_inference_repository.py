"""Stores that hang: who else has to wait."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from services.inference.repository import Repository


class Hangs:
    """A source that answers when it is told to."""

    def __init__(self) -> None:
        self.answers = threading.Event()

    def versions(self) -> list[int]:
        self.answers.wait()
        return []


async def test_clients_who_ask_a_store_that_hangs_take_no_thread_from_others() -> None:
    """Loads and the best pointer are on the loop's own threads."""
    source: Any = Hangs()
    repository = Repository("run", source, lambda *_: source)
    asking = [asyncio.create_task(repository.index()) for _ in range(64)]
    try:
        await asyncio.sleep(0)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "other work"), 60) == "other work"
    finally:
        source.answers.set()
    assert await asyncio.gather(*asking) == [[]] * 64
