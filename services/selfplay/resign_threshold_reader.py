"""v_resign as the engines use it, read from Postgres."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog
from zerofleet_core import SelfPlay

from zerofleet.config import RunConfig
from zerofleet.database import Database
from zerofleet.errors import StoreUnavailableError

_log = structlog.get_logger()


class ResignThresholdReader:
    """Tells the engines with which threshold games begin.

    From the start on, a share of the games play on: v_resign is computed from them.

    Args:
        run: its name and its section ``[resign]``.
        database: asked from a thread; may be away.
        engines: told; those of a run without resignation are left alone.
    """

    def __init__(self, run: RunConfig, database: Database, engines: Sequence[SelfPlay]) -> None:
        self._run = run.name
        self._settings = run.resign
        self._database = database
        self._engines = engines
        self.threshold: float | None = None
        """Games that begin now are resigned below it; None: no player resigns."""
        if self._settings.enabled:
            self._tell(None)

    async def read(self) -> None:
        """Take over what Postgres says; while it does not answer, the last threshold stays."""
        if not self._settings.enabled:
            return
        try:
            threshold = await asyncio.to_thread(self._database.last_v_resign, self._run)
        except StoreUnavailableError:
            return  # the parts that need Postgres to go on say that it is away
        if threshold != self.threshold:
            _log.info("resign_threshold", threshold=threshold, before=self.threshold)
            self._tell(threshold)

    async def watch(self) -> None:
        """Read again and again, until cancelled."""
        while True:
            await asyncio.sleep(self._settings.every_seconds)
            await self.read()

    def _tell(self, threshold: float | None) -> None:
        for engine in self._engines:
            engine.set_resignation(threshold, self._settings.play_on_share)
        self.threshold = threshold
