"""A worker's games: finished ones are stored once, unfinished ones pass from worker to worker.

Games are sent as JSON whose long columns are array literals.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar, cast
from uuid import UUID

import numpy as np
import structlog
from psycopg2 import errorcodes
from sqlalchemy import exc
from zerofleet_core import State, game_spec

from zerofleet.database.connection import ConnectionPool, explain
from zerofleet.errors import ConfigError, RecordRejectedError
from zerofleet.records import GameRecord, read_json

GameKind = Literal["selfplay", "match"]
SubmitStatus = Literal["stored", "duplicate", "adopted", "conflict", "rejected"]
_T = TypeVar("_T")
SaveStatus = Literal["saved", "lost", "full", "rejected"]

_log = structlog.get_logger()

_SUBMIT = (
    "SELECT status, reason FROM submit_games(:run, :worker, CAST(:games AS json)) WITH ORDINALITY "
    "ORDER BY ordinality"
)
_SAVE = (
    "SELECT status, reason "
    "FROM save_unfinished(:run, :worker, CAST(:records AS json), :lease_seconds) "
    "WITH ORDINALITY ORDER BY ordinality"
)


# Postgres takes about 280 bytes of memory for each search entry of a statement.
_MOST_ENTRIES = 400_000


@dataclass(frozen=True, slots=True)
class Submission:
    """A finished game, with the number of its adoptions."""

    record: GameRecord
    epoch: int = 0
    kind: GameKind = "selfplay"


def encode_submissions(submissions: Sequence[Submission]) -> str:
    """Encode a batch for ``submit_games``.

    Raises:
        RecordRejectedError: a record is unfinished, or contains actions that its game does not
            have.
    """
    return json.dumps([_encode(submission) for submission in submissions])


def encode_unfinished(records: Sequence[tuple[GameRecord, int]]) -> str:
    """Encode records with their epochs for ``save_unfinished``."""
    return json.dumps([{"epoch": epoch, "record": record.to_json()} for record, epoch in records])


def _encode(submission: Submission) -> dict[str, Any]:
    record = submission.record
    if record.result is None or record.finished_at is None:
        raise RecordRejectedError(f"game {record.game_uid} is not finished")
    return {
        "epoch": submission.epoch,
        "kind": submission.kind,
        "moves": _moves(record),
        "content_sha256": f"\\x{record.digest().hex()}",
        "record": record.to_json(),
    }


def _moves(record: GameRecord) -> str:
    if ":" in record.game:
        return _moves_played(record)
    names = _action_names(record.game)
    try:
        return " ".join([names[action] for action in record.columns.action.tolist()])
    except KeyError as error:
        raise RecordRejectedError(
            f"game {record.game_uid}: {record.game} has no action {error}"
        ) from None


def _moves_played(record: GameRecord) -> str:
    """Return the notation of games from outside the core, which may depend on the position."""
    state = State(record.game)
    moves: list[str] = []
    try:
        for action in record.columns.action.tolist():
            name = state.action_to_string(action)
            state.apply(action)
            moves.append("".join(name.split()))
    except ValueError as error:
        raise RecordRejectedError(
            f"game {record.game_uid}: ply {len(moves)}: {record.game}: {error}"
        ) from None
    return " ".join(moves)


@cache
def _action_names(game: str) -> dict[int, str]:
    """Return the notation of each action; in the core's games it never depends on the position."""
    state = State(game)
    actions = range(game_spec(game).num_actions)
    return {int(action): state.action_to_string(action) for action in np.asarray(actions)}


@dataclass(frozen=True, slots=True)
class PositionsAhead:
    """How far self-play is ahead of the trainer, according to Postgres."""

    positions: float
    """Positions for training that the trainer has not trained on."""
    unread_positions: float
    """The same without the games of the last three seconds, which a working trainer may have read
    since it recorded its progress."""
    age_seconds: float | None
    """Seconds since the trainer recorded its progress; None: no trainer has."""


class WorkerGames(ConnectionPool):
    """Operations of workers; each method is one call of a function in the database."""

    def submit_games(
        self, run: str, worker: str, submissions: Sequence[Submission]
    ) -> list[SubmitStatus]:
        """Store finished games with their positions, each exactly once.

        ``stored`` and ``duplicate`` mean that Postgres has committed the game. Other games are set
        aside. ``adopted``: another worker has taken over the game, and its record counts.
        ``conflict``: the uid belongs to another record. ``rejected``: the record contradicts
        itself. Each game has its own answer.

        Returns:
            An answer for each submission, in order.

        Raises:
            StoreUnavailableError: perhaps nothing is stored; submit the same again.
            RecordRejectedError: a record cannot be encoded; perhaps nothing is stored. Submit the
                games one by one to find it.
            ConfigError: there is no such run.
        """
        if not submissions:
            return []
        # In the same order everywhere, so that two workers with the same games cannot deadlock.
        order = sorted(range(len(submissions)), key=lambda i: submissions[i].record.game_uid.bytes)
        ordered = [submissions[i] for i in order]
        batches = [encode_submissions(each) for each in _batches(ordered, lambda s: s.record)]
        answers = [answer for games in batches for answer in self._submit(run, worker, games)]
        statuses = cast("list[SubmitStatus]", [""] * len(submissions))
        for i, (status, reason) in zip(order, answers, strict=True):
            statuses[i] = status
            if reason is not None:
                uid = str(submissions[i].record.game_uid)
                _log.warning("game_not_stored", game_uid=uid, status=status, reason=reason)
        return statuses

    def positions_ahead(self, run: str, trained_share: float, enough: float) -> PositionsAhead:
        """Return how far self-play is ahead of the trainer.

        Args:
            trained_share: share of a game's positions that is used for training.
            enough: counting stops above this many positions.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        rows = self._rows(
            "SELECT positions, unread_positions, age_seconds "
            "FROM positions_ahead(:run, :share, :enough)",
            run=run,
            share=trained_share,
            enough=enough,
        )
        return PositionsAhead(*rows[0]) if rows else PositionsAhead(0.0, 0.0, None)

    def last_v_resign(self, run: str) -> float | None:
        """v_resign as last computed; None while no player resigns."""
        [row] = self._rows("SELECT last_v_resign(:run) AS threshold", run=run)
        return row.threshold

    def submit_game(self, run: str, worker: str, submission: Submission) -> SubmitStatus:
        """Store one finished game; see ``submit_games``.

        Raises:
            RecordRejectedError: it contradicts itself; the message says how.
        """
        games = encode_submissions([submission])
        [(status, reason)] = self._submit(run, worker, games)
        if status == "rejected":
            raise RecordRejectedError(f"game {submission.record.game_uid}: {reason}")
        return status

    def _submit(self, run: str, worker: str, games: str) -> list[tuple[SubmitStatus, str | None]]:
        try:
            rows = self._rows(_SUBMIT, run=run, worker=worker, games=games)
        except exc.IntegrityError as error:
            if getattr(error.orig, "pgcode", None) != errorcodes.FOREIGN_KEY_VIOLATION:
                raise
            raise ConfigError(explain(error.orig or error)) from error
        except exc.DataError as error:
            raise RecordRejectedError(explain(error.orig or error)) from error
        return [(row.status, row.reason) for row in rows]

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
                for batch in _batches(records, lambda saved: saved[0])
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


def _batches(items: Sequence[_T], record_of: Callable[[_T], GameRecord]) -> Generator[Sequence[_T]]:
    """Split games so that one statement has few search entries, or a single game."""
    first, entries = 0, 0
    for place, item in enumerate(items):
        more = record_of(item).columns.legal_actions.size
        if place > first and entries + more > _MOST_ENTRIES:
            yield items[first:place]
            first, entries = place, 0
        entries += more
    yield items[first:]


def _read(game_uid: UUID, text: str) -> GameRecord:
    try:
        record = GameRecord.from_json(read_json(text))
    except (ValueError, RecursionError) as error:  # the former includes RecordRejectedError
        raise RecordRejectedError(str(error)) from error
    if record.game_uid != game_uid:
        raise RecordRejectedError(f"the record is of game {record.game_uid}")
    return record
