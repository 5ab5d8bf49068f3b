"""Promotions: a row in Postgres first, then the pointer in Redis, which can always be rebuilt."""

from __future__ import annotations

import asyncio

import structlog

from zerofleet.best_pointer import BestPointer
from zerofleet.database import Database, Grounds, Promotion
from zerofleet.errors import StaleEpochError, StoreUnavailableError
from zerofleet.waiting import Waits

_log = structlog.get_logger()

_RECONCILE_SECONDS = 5.0


class Promoter:
    """Adds to one run's chain of promotions and keeps the pointer at its end.

    Args:
        database: the record.
        pointer: the copy in Redis.
        run: name of the run.
        actor: who promotes, for the record.
        epoch: of the evaluator's fence; the database refuses an older one.
        waits: told what is waited for.
    """

    def __init__(
        self,
        database: Database,
        pointer: BestPointer,
        run: str,
        actor: str,
        epoch: int,
        waits: Waits,
    ) -> None:
        self._database = database
        self._pointer = pointer
        self._run = run
        self._actor = actor
        self._epoch = epoch
        self._waits = waits

    async def promote(
        self,
        version: int,
        match_id: int | None,
        head: Promotion | None,
        grounds: Grounds | None = None,
    ) -> Promotion | None:
        """Make a version the best, and then visible.

        Args:
            version: the model.
            match_id: the match that it won; None where none was played.
            head: the end of the chain that the decision was made on.
            grounds: what the match's verdict rests on.

        Returns:
            The promotion; None when the chain has grown meanwhile, as by a person's rollback:
            nothing was decided then.

        Raises:
            StaleEpochError: another evaluator has taken over; this one must stop.
        """
        promotion = await self._waits.ask_store(self._record, version, match_id, head, grounds)
        if promotion is None:
            _log.warning("chain_moved", not_promoted=version, match_id=match_id)
            return None
        _log.info("promoted", version=version, seq=promotion.seq, match_id=match_id)
        await self.point(promotion)
        return promotion

    def _record(
        self, version: int, match_id: int | None, head: Promotion | None, grounds: Grounds | None
    ) -> Promotion | None:
        expected = head.seq if head else 0
        try:
            return self._database.promote(
                self._run,
                version,
                match_id,
                self._actor,
                expected,
                epoch=self._epoch,
                grounds=grounds,
            )
        except StaleEpochError:
            mine = (expected + 1, version, match_id, self._actor)
            for row in self._database.promotion_history(self._run)[:1]:
                now = row.promotion
                if (now.seq, now.version, row.match_id, row.actor) == mine:
                    return now  # it was this very promotion, whose answer was lost
            if self._database.evaluator_epoch(self._run) == self._epoch:
                return None
            raise

    async def point(self, promotion: Promotion) -> None:
        """Move the pointer; should Redis be away, the reconciler will."""
        try:
            await asyncio.to_thread(self._pointer.set_if_newer, promotion)
        except StoreUnavailableError:
            _log.warning("pointer_not_moved", version=promotion.version, reason="Redis is down")


async def reconcile(pointer: BestPointer, database: Database) -> None:
    """Keep the pointer at the end of the chain, whatever happens to Redis; runs until cancelled."""
    away = False
    while True:
        try:
            await asyncio.to_thread(pointer.reconcile, database)
        except StoreUnavailableError as error:
            if not away:
                _log.warning("pointer_not_checked", reason=str(error))
            away = True
        else:
            away = False
        await asyncio.sleep(_RECONCILE_SECONDS)
