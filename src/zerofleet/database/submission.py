"""Games on their way into Postgres, written as JSON whose long columns are array literals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from zerofleet_core import State, game_spec

from zerofleet.errors import RecordRejectedError
from zerofleet.records import GameRecord

GameKind = Literal["selfplay", "match"]
SubmitStatus = Literal["stored", "duplicate", "adopted", "conflict", "rejected"]


@dataclass(frozen=True, slots=True)
class Submission:
    """A finished game, with the adoptions it has been through."""

    record: GameRecord
    epoch: int = 0
    kind: GameKind = "selfplay"


def encode_submissions(submissions: Sequence[Submission]) -> str:
    """The batch as ``submit_games`` takes it.

    Raises:
        RecordRejectedError: a record is unfinished, or names actions that its game does not have.
    """
    return json.dumps([_encode(submission) for submission in submissions])


def encode_unfinished(records: Sequence[tuple[GameRecord, int]]) -> str:
    """Records with their epochs as ``save_unfinished`` takes them."""
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
    """The notation of games from elsewhere, such as chess, which may depend on the position."""
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
    """The notation of each action; in the core's games it is the same in every position."""
    state = State(game)
    actions = range(game_spec(game).num_actions)
    return {int(action): state.action_to_string(action) for action in np.asarray(actions)}
