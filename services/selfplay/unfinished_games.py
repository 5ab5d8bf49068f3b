"""Unfinished games kept in Postgres under a lease, so that another worker can go on with them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from uuid import UUID

import structlog
from zerofleet_core import GameColumns

from zerofleet.database import Database
from zerofleet.errors import StoreUnavailableError
from zerofleet.records import GameRecord
from zerofleet.services.selfplay.games_in_play import GamesInPlay
from zerofleet.waiting import Waits, awaited

_log = structlog.get_logger()

_BATCH_GAMES = 64
_GIVEN_UP = {
    "lost": "its lease was taken over, or it is over: another worker's record counts",
    "rejected": "its record contradicts itself, and is kept in games_conflict",
}


class UnfinishedGames:
    """Saves, extends, adopts and releases on behalf of one worker.

    Args:
        database: asked from a thread.
        run: name of the run.
        worker: name of this worker.
        lease_seconds: silent for this long, this worker's games may be adopted.
        waits: told when Postgres is waited for.
    """

    def __init__(
        self, database: Database, run: str, worker: str, lease_seconds: float, waits: Waits
    ) -> None:
        self._database = database
        self._run = run
        self._worker = worker
        self._lease_seconds = lease_seconds
        self._waits = waits
        self.reachable = True
        """Whether Postgres answered the last time."""
        self._adopt_after = 0.0  # monotonic time

    async def save(self, in_play: GamesInPlay, games: Sequence[GameColumns]) -> bool:
        """Save these unfinished games as they stand; False when Postgres does not answer.

        A game that another worker adopted meanwhile, or whose record is refused, is given up.
        """
        for first in range(0, len(games), _BATCH_GAMES):
            batch = [game for game in games[first : first + _BATCH_GAMES] if in_play.knows(game)]
            records = [in_play.unfinished(game) for game in batch]
            try:
                kept = await asyncio.to_thread(
                    self._database.save_unfinished,
                    self._run,
                    self._worker,
                    records,
                    self._lease_seconds,
                )
            except StoreUnavailableError as error:
                self._lost_sight(error)
                return False
            for game, (record, epoch), status in zip(batch, records, kept, strict=True):
                if status == "saved":
                    in_play.saved(game)
                elif in_play.disown(game.game_id, epoch):
                    uid = str(record.game_uid)
                    why = _GIVEN_UP[status]
                    _log.warning("game_given_up", game_uid=uid, epoch=epoch, reason=why)
            self._reached()
        return True

    async def extend(self, game_uids: Sequence[UUID]) -> None:
        """Push this worker's leases of these games into the future."""
        try:
            await asyncio.to_thread(
                self._database.extend_leases,
                self._run,
                self._worker,
                game_uids,
                self._lease_seconds,
            )
        except StoreUnavailableError as error:
            self._lost_sight(error)
        else:
            self._reached()

    async def adopt(self, limit: int) -> list[tuple[GameRecord, int]]:
        """Take over up to ``limit`` games whose leases have expired, with their new epochs.

        After an outage of Postgres all leases look expired, those of live workers too: they get
        one lease's time to extend theirs first.
        """
        if limit <= 0 or time.monotonic() < self._adopt_after:
            return []
        try:
            adopted = await asyncio.to_thread(
                self._database.adopt_unfinished,
                self._run,
                self._worker,
                limit,
                self._lease_seconds,
            )
        except StoreUnavailableError as error:
            self._lost_sight(error)
            return []
        if adopted:
            _log.info("games_adopted", games=len(adopted))
        return adopted

    async def reject(self, record: GameRecord, epoch: int, reason: str) -> None:
        """Put an adopted game aside that cannot go on.

        While Postgres is away its lease runs out, and the next worker finds the same fault.
        """
        try:
            await asyncio.to_thread(
                self._database.reject_unfinished,
                self._run,
                self._worker,
                record.game_uid,
                epoch,
                reason,
            )
        except StoreUnavailableError as error:
            self._lost_sight(error)

    async def release(self) -> bool:
        """End this worker's leases now, others need not wait; False when Postgres is away."""
        try:
            await asyncio.to_thread(self._database.release_unfinished, self._run, self._worker)
        except StoreUnavailableError as error:
            self._lost_sight(error)
            return False
        return True

    def _reached(self) -> None:
        self.reachable = True
        self._waits.end("saver")

    def _lost_sight(self, error: StoreUnavailableError) -> None:
        self.reachable = False
        self._waits.begin("saver", awaited(error))
        self.hold_back()

    def hold_back(self) -> None:
        """Postgres was away: adopt nothing for one lease's time."""
        self._adopt_after = time.monotonic() + self._lease_seconds
