"""Unfinished games: saved with a lease by the worker that plays them, adopted by another one.

A worker saves its games while it plays and when it leaves. After the lease has expired, another
worker adopts a game under a new epoch. Postgres then refuses what the earlier worker sends. The
functions are in ``functions/unfinished_games.sql`` and ``functions/adoption.sql``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal
from uuid import UUID

import structlog
from sqlalchemy import exc

from zerofleet.database.connection import ConnectionPool, explain
from zerofleet.database.finished_games import small_batches
from zerofleet.errors import ConfigError, RecordRejectedError
from zerofleet.records import GameRecord, read_json

SaveStatus = Literal["saved", "lost", "full", "rejected"]

_log = structlog.get_logger()

_SAVE = (
    "SELECT status, reason "
    "FROM save_unfinished(:run, :worker, CAST(:records AS json), :lease_seconds) "
    "WITH ORDINALITY ORDER BY ordinality"
)


def encode_unfinished(records: Sequence[tuple[GameRecord, int]]) -> str:
    """Encode records with their epochs for ``save_unfinished``."""
    return json.dumps([{"epoch": epoch, "record": record.to_json()} for record, epoch in records])


class GameLeases(ConnectionPool):
    """Saving and adopting games; each method is one call of a function in the database."""

    def save_unfinished(
        self,
        run: str,
        worker: str,
        records: Sequence[tuple[GameRecord, int]],
        lease_seconds: float,
    ) -> list[SaveStatus]:
        """Save games in play, with their epochs, and extend their leases.

        ``lost``: another worker has adopted the game, or it is over. ``rejected``: the record
        contradicts itself and is set aside. A worker should stop playing both. ``full``: the run
        has too many unfinished games to save another one; a worker may play on.

        Returns:
            An answer for each game, in order.

        Raises:
            StoreUnavailableError: perhaps nothing is saved; save the same again.
            ConfigError: there is no such run.
        """
        if not records:
            return []
        try:
            rows = [
                row
                for batch in small_batches(records, lambda saved: saved[0])
                for row in self._rows(
                    _SAVE,
                    run=run,
                    worker=worker,
                    records=encode_unfinished(batch),
                    lease_seconds=lease_seconds,
                )
            ]
        except exc.IntegrityError as error:
            raise ConfigError(explain(error.orig or error)) from error
        for (record, _), row in zip(records, rows, strict=True):
            if row.reason is not None:
                uid = str(record.game_uid)
                _log.error("game_not_saved", game_uid=uid, status=row.status, reason=row.reason)
        return [row.status for row in rows]

    def adopt_unfinished(
        self, run: str, worker: str, limit: int, lease_seconds: float
    ) -> list[tuple[GameRecord, int]]:
        """Take over games whose leases have expired, with their new epochs.

        A call returns at most ``limit`` games, 8 games, or 64 MB. A game whose record cannot be
        read is set aside.
        """
        rows = self._rows(
            "SELECT game_uid, record::text AS record, epoch "
            "FROM adopt_unfinished(:run, :worker, :limit, :lease_seconds)",
            run=run,
            worker=worker,
            limit=limit,
            lease_seconds=lease_seconds,
        )
        adopted: list[tuple[GameRecord, int]] = []
        for row in rows:
            try:
                record = _read(row.game_uid, row.record)
            except RecordRejectedError as error:
                self.reject_unfinished(run, worker, row.game_uid, row.epoch, str(error))
            else:
                adopted.append((record, row.epoch))
        return adopted

    def reject_unfinished(
        self, run: str, worker: str, game_uid: UUID, epoch: int, reason: str
    ) -> bool:
        """Set aside an adopted game that cannot continue, so that it is not adopted again.

        Its record is kept in ``refused_games``. Returns False if it is no longer this worker's.
        """
        _log.error("adoption_refused", game_uid=str(game_uid), reason=reason)
        [row] = self._rows(
            "SELECT reject_unfinished(:run, :worker, CAST(:uid AS uuid), :epoch, :reason) AS done",
            run=run,
            worker=worker,
            uid=str(game_uid),
            epoch=epoch,
            reason=reason,
        )
        return row.done

    def extend_leases(
        self, run: str, worker: str, game_uids: Sequence[UUID], lease_seconds: float
    ) -> int:
        """Extend the leases of the games that this worker plays; return how many of them it holds.

        Other leases under its name expire, because the worker does not play those games.
        """
        [row] = self._rows(
            "SELECT extend_leases(:run, :worker, CAST(:uids AS uuid[]), :lease_seconds) AS games",
            run=run,
            worker=worker,
            uids=[str(uid) for uid in game_uids],
            lease_seconds=lease_seconds,
        )
        return row.games

    def release_unfinished(self, run: str, worker: str) -> int:
        """Let others adopt this worker's games at once; return how many there were."""
        [row] = self._rows(
            "SELECT release_unfinished(:run, :worker) AS games", run=run, worker=worker
        )
        return row.games


def _read(game_uid: UUID, text: str) -> GameRecord:
    try:
        record = GameRecord.from_json(read_json(text))
    except (ValueError, RecursionError) as error:  # the former includes RecordRejectedError
        raise RecordRejectedError(str(error)) from error
    if record.game_uid != game_uid:
        raise RecordRejectedError(f"the record is of game {record.game_uid}")
    return record
