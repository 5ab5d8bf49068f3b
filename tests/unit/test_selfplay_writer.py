"""The spool of finished games: when play pauses and resumes."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

from zerofleet.errors import StoreUnavailableError
from zerofleet.services.selfplay.game_storage import GameWriter
from zerofleet.waiting import Waits

LIMIT = 200


class LostAfterOneBatch:
    """Stores the first batch and is unreachable from then on."""

    def __init__(self) -> None:
        self.batches = 0

    def submit_games(self, run: str, worker: str, batch: list[object]) -> list[str]:
        """Return ``stored`` for each game, once."""
        self.batches += 1
        if self.batches > 1:
            raise StoreUnavailableError("Postgres does not answer")
        return ["stored"] * len(batch)


async def settled() -> None:
    """Return at once: no unfinished game is being saved."""


async def test_play_resumes_when_an_outage_makes_the_rest_of_the_spool_available() -> None:
    database = LostAfterOneBatch()
    waits = Waits()
    writer = GameWriter(cast("Any", database), "run", "worker", LIMIT, waits, settled)
    for _ in range(LIMIT):
        record = SimpleNamespace(game_uid=uuid4(), length=3)
        writer.put(cast("Any", SimpleNamespace(record=record)))
    assert "store games" in str(waits)  # paused: the spool is full
    task = asyncio.create_task(writer.run())
    try:
        async with asyncio.timeout(30):
            await writer.room()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    # More than half of the limit is left, so only the outage can have let play resume.
    assert LIMIT / 2 < writer.spooled < LIMIT
    assert "store games" not in str(waits)
