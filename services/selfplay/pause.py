"""When play pauses: no room for finished games, or a trainer that is far behind.

How far the trainer is behind says its heartbeat in Redis. Where Redis cannot tell, Postgres does:
the trainer records its progress there, and games are counted from then on.
"""

from __future__ import annotations

import asyncio
import contextlib

from zerofleet.config import RunConfig
from zerofleet.database import Database
from zerofleet.errors import StoreUnavailableError
from zerofleet.fleet.figures import TrainerFigures
from zerofleet.fleet.heartbeat import BEAT_TTL_SECONDS, Heartbeats
from zerofleet.services.selfplay.writer import GameWriter
from zerofleet.waiting import Waits

_LOOK_SECONDS = 0.5
_REDIS_SECONDS = 1.0  # for an answer; then Postgres is asked


class Pause:
    """Between two batches each engine loop asks whether play is paused.

    Args:
        writer: play pauses while its spool is full.
        max_ahead_positions: play pauses while the trainer has more before it; 0: never.
        waits: told when the trainer is waited for.
    """

    def __init__(self, writer: GameWriter, max_ahead_positions: int, waits: Waits) -> None:
        self._writer = writer
        self._max_ahead = max_ahead_positions
        self._waits = waits
        self._trainer_keeps_up = asyncio.Event()
        self._trainer_keeps_up.set()

    @property
    def watches_trainer(self) -> bool:
        """Whether ``hear`` wants the trainer's heartbeats at all."""
        return self._max_ahead > 0

    @property
    def goes_on(self) -> bool:
        """Whether play is paused for the trainer's sake."""
        return not self._trainer_keeps_up.is_set()

    def hear(self, trainer: TrainerFigures | None) -> None:
        """Learn from the trainer's figures how many positions it has not trained on yet."""
        if trainer is None or trainer.unspent_positions is None:
            # It must catch up with what there is before it can say how much that is.
            self._begin("the trainer to start")
        else:
            self.hear_ahead(trainer.unspent_positions)

    def hear_ahead(self, positions: float) -> None:
        """Learn how many positions the trainer has not trained on yet."""
        if positions > self._max_ahead:
            self._begin(f"the trainer, {self._max_ahead} positions behind")
        else:
            self.hear_nothing()

    def hear_nothing(self) -> None:
        """Play on: the trainer keeps up, or no store can tell how far it is."""
        self._trainer_keeps_up.set()
        self._waits.end("pause")

    def _begin(self, thing: str) -> None:
        self._trainer_keeps_up.clear()
        self._waits.begin("pause", thing, "idle")

    async def over(self) -> None:
        """Return when play is not paused; at once, normally."""
        await self._writer.room()
        await self._trainer_keeps_up.wait()


class TrainerWatch:
    """Tells ``Pause`` how far the trainer is behind, where the run file limits that.

    Args:
        run: the run.
        heartbeats: Redis; may be down, hang, or take no writes.
        database: Postgres; may be down.
        pause: told.
    """

    def __init__(
        self, run: RunConfig, heartbeats: Heartbeats, database: Database, pause: Pause
    ) -> None:
        self._run = run.name
        self._trained_share = run.search.full_search_share * (1 - run.trainer.held_out_share)
        self._heartbeats = heartbeats
        self._database = database
        self._pause = pause
        self._asking: asyncio.Task[TrainerFigures | None] | None = None

    async def watch(self) -> None:
        """Look again and again, until cancelled."""
        while self._pause.watches_trainer:
            await self.look()
            await asyncio.sleep(_LOOK_SECONDS)
        await asyncio.Event().wait()

    async def look(self) -> None:
        """Look once; while Redis hangs, its answer is awaited over several looks."""
        if self._asking is None:
            self._asking = asyncio.create_task(asyncio.to_thread(self._heartbeats.read_trainer))
        asking, is_up = self._asking, False
        await asyncio.wait({asking}, timeout=_REDIS_SECONDS)
        if asking.done():
            self._asking = None
            with contextlib.suppress(StoreUnavailableError):
                trainer = asking.result()
                # A heartbeat that Redis cannot renew stays for seconds, and then is missing.
                is_up = self._heartbeats.state.status == "up"
                if is_up and trainer is not None:
                    self._pause.hear(trainer)
                    return
        await self._ask_postgres(redis_is_up=is_up)

    async def _ask_postgres(self, *, redis_is_up: bool) -> None:
        """Learn from Postgres how far the trainer is, and that it is down if Redis is up."""
        try:
            ahead = await asyncio.to_thread(
                self._database.positions_ahead, self._run, self._trained_share
            )
        except StoreUnavailableError:
            self._pause.hear_nothing()  # the spool of finished games bounds what is played
            return
        is_recent = ahead.age_seconds is not None and ahead.age_seconds < BEAT_TTL_SECONDS
        if redis_is_up and not is_recent:
            self._pause.hear(None)
        else:
            self._pause.hear_ahead(ahead.positions)
