"""A worker's finished games, each stored exactly once.

Games are sent as JSON whose long columns are array literals. ``functions/games.sql`` takes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar, cast

import numpy as np
import structlog
from psycopg2 import errorcodes
from sqlalchemy import exc
from zerofleet_core import State, game_spec

from zerofleet.database.connection import ConnectionPool, explain
from zerofleet.errors import ConfigError, RecordRejectedError
from zerofleet.games.chess import is_chess
from zerofleet.records import GameRecord

GameKind = Literal["selfplay", "match", "given"]
SubmitStatus = Literal["stored", "duplicate", "adopted", "conflict", "rejected"]
_T = TypeVar("_T")

_log = structlog.get_logger()

_SUBMIT = (
    "SELECT status, reason FROM submit_games(:run, :worker, CAST(:games AS json)) WITH ORDINALITY "
    "ORDER BY ordinality"
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
    if ":" in record.game or is_chess(record.game):
        return _moves_played(record)
    names = _action_names(record.game)
    try:
        return " ".join([names[action] for action in record.columns.action.tolist()])
    except KeyError as error:
        raise RecordRejectedError(
            f"game {record.game_uid}: {record.game} has no action {error}"
        ) from None


def _moves_played(record: GameRecord) -> str:
    """Return the moves of a game whose notation may depend on the position."""
    moves: list[str] = []
    try:
        state = State(record.game, [], record.columns.start)
        for action in record.columns.action.tolist():
            name = state.action_to_san(action)
            state.apply(action)
            moves.append("".join(name.split()))
    except ValueError as error:
        raise RecordRejectedError(
            f"game {record.game_uid}: ply {len(moves)}: {record.game}: {error}"
        ) from None
    return " ".join(moves)


@cache
def _action_names(game: str) -> dict[int, str]:
    """Return the notation of each action in a game where it never depends on the position."""
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


class FinishedGames(ConnectionPool):
    """Storing finished games; each method is one call of a function in the database."""

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
        batches = [encode_submissions(each) for each in small_batches(ordered, lambda s: s.record)]
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


def small_batches(
    items: Sequence[_T], record_of: Callable[[_T], GameRecord]
) -> Generator[Sequence[_T]]:
    """Split games so that one statement has few search entries, or a single game."""
    first, entries = 0, 0
    for place, item in enumerate(items):
        more = record_of(item).columns.legal_actions.size
        if place > first and entries + more > _MOST_ENTRIES:
            yield items[first:place]
            first, entries = place, 0
        entries += more
    yield items[first:]
