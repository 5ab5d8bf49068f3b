"""Games on their way into Postgres, written as JSON whose long columns are array literals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from zerofleet_core import State, game_spec

from zerofleet.errors import RecordRejectedError
from zerofleet.records import GameRecord

GameKind = Literal["selfplay", "match"]
SubmitStatus = Literal["stored", "duplicate", "conflict", "rejected"]


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
    return json.dumps(
        [
            {
                "game_uid": str(record.game_uid),
                "epoch": epoch,
                "ply": record.length,
                "record": record.to_json(),
            }
            for record, epoch in records
        ]
    )


def _encode(submission: Submission) -> dict[str, Any]:
    record = submission.record
    if record.result is None or record.finished_at is None:
        raise RecordRejectedError(f"game {record.game_uid} is not finished")
    return {
        "game_uid": str(record.game_uid),
        "epoch": submission.epoch,
        "kind": submission.kind,
        "game": record.game,
        "result": record.result,
        "reason": record.reason,
        "started_at": record.started_at.isoformat(),
        "finished_at": record.finished_at.isoformat(),
        "moves": _moves(record),
        "content_sha256": f"\\x{record.digest().hex()}",
        "actions": _array(record.actions),
        "model_versions": _array(record.model_versions),
        "root_values": _array(record.root_values),
        "network_values": _array(record.network_values),
        "simulations": _array(record.simulations),
        "full_search": _array(record.full_search),
        "offsets": _array(record.offsets),
        "child_actions": _array(record.child_actions),
        "child_visit_counts": _array(record.child_visit_counts),
        "child_priors": _array(record.child_priors),
        "best_child_values": _array(record.best_child_values),
        "child_policy_weights": (
            None if record.is_target_visits else _array(record.child_policy_weights)
        ),
        "resign_threshold": record.resign_threshold,
        "plays_on": record.plays_on,
        "to_play": None if record.to_play is None else _array(record.to_play),
    }


def _array(column: NDArray[Any]) -> str:
    """A Postgres array literal; nine digits are enough to give every float32 back exactly."""
    values = column.tolist()
    if column.dtype.kind == "f":
        return "{" + ("%.9g," * len(values))[:-1] % tuple(values) + "}"
    return "{" + str(values)[1:-1] + "}"


def _moves(record: GameRecord) -> str:
    if ":" in record.game:
        return _moves_played(record)
    names = _action_names(record.game)
    try:
        return " ".join([names[action] for action in record.actions.tolist()])
    except KeyError as error:
        raise RecordRejectedError(
            f"game {record.game_uid}: {record.game} has no action {error}"
        ) from None


def _moves_played(record: GameRecord) -> str:
    """The notation of games from elsewhere, such as chess, which may depend on the position."""
    state = State(record.game)
    moves: list[str] = []
    try:
        for action in record.actions.tolist():
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
