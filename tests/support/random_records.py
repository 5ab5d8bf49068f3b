"""Game records for tests: random legal play under made-up searches, from a seed."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from zerofleet_core import GameColumns, State

from zerofleet import records
from zerofleet.records import COLUMNS, GameRecord, game_uid_of

_START = datetime(2026, 1, 1, tzinfo=UTC)
_FIELDS = {field.name for field in dataclasses.fields(GameRecord)}


def random_record(
    seed: int,
    game: str = "tic_tac_toe",
    *,
    model_version: int = 1,
    plies: int | None = None,
    start: str = "",
) -> GameRecord:
    """A whole game of random moves, or its first ``plies``; the same seed gives the same record.

    It begins at the position ``start``; empty: the usual start.

    With an odd seed the training target is not the visit counts.
    """
    generator = random.Random(f"{game} {seed}")
    game_uid = game_uid_of(_START, generator.getrandbits(128))
    state = State(game, [], start)
    arrays = np.random.default_rng(seed)
    played: list[dict[str, Any]] = []
    while not state.is_terminal and len(played) != plies:
        legal = list(state.legal_actions())
        visits = arrays.integers(0, 50, len(legal), np.int32)
        # Each column that a later version adds is drawn like the values.
        ply: dict[str, Any] = {
            column.name: arrays.uniform(-1, 1) for column in COLUMNS if column.entry == "ply"
        }
        played.append(
            ply
            | {
                "action": generator.choice(legal),
                "to_play": state.to_play,
                "model_version": model_version,
                "simulations": 50,
                "full_search": arrays.random() < 0.5,
                "legal_actions": legal,
                "visit_counts": visits,
                "priors": arrays.random(len(legal), np.float32),
                "policy_weights": visits - ((visits > 1) & bool(seed % 2)),
            }
        )
        state.apply(played[-1]["action"])
    return GameRecord(
        game_uid=game_uid,
        game=game,
        columns=records.changed(
            joined(played, result=state.result if state.is_terminal else None), start=start
        ),
        started_at=_START,
        finished_at=_START + timedelta(seconds=len(played)) if state.is_terminal else None,
    )


def changed(record: GameRecord, **changes: object) -> GameRecord:
    """The same record with other columns, facts (``result``, ``reason``, ...) or fields."""
    fields: dict[str, Any] = {name: value for name, value in changes.items() if name in _FIELDS}
    others: dict[str, Any] = {name: value for name, value in changes.items() if name not in _FIELDS}
    return dataclasses.replace(record, columns=records.changed(record.columns, **others), **fields)


def target_record(seed: int) -> GameRecord:
    """A random game of tic-tac-toe of which every ply is a position to train on."""
    record = random_record(seed)
    visits = record.columns.visit_counts + np.int32(1)
    return changed(
        record,
        full_search=np.ones(record.length, np.bool_),
        visit_counts=visits,
        policy_weights=visits,
    )


def resigned_record(
    seed: int, plies: int, game: str = "tic_tac_toe", *, model_version: int = 1
) -> GameRecord:
    """The same game given up by the player to move after ``plies`` moves.

    Raises:
        ValueError: the game is over by then.
    """
    record = random_record(seed, game, model_version=model_version, plies=plies)
    if record.length != plies or record.result is not None:
        raise ValueError(f"game {seed} of {game} is over after {record.length} plies")
    return changed(
        record,
        result=-1 if State(game, record.columns.action.tolist()).to_play == 0 else 1,
        reason="resign",
        finished_at=_START + timedelta(seconds=plies),
        resign_threshold=-0.5,
    )


def joined(
    plies: Sequence[Mapping[str, Any]], *, result: int | None, reason: str = "rules"
) -> GameColumns:
    """A game from its plies, each with a value, or a row of values, for every column.

    Args:
        plies: in order.
        result: +1 the first player won, -1 the second did, 0 a draw; None: unfinished.
        reason: what ended it.
    """
    arrays: dict[str, Any] = {}
    for column in COLUMNS:
        entries = [ply[column.name] for ply in plies]
        is_table = column.entry == "legal action"
        arrays[column.name] = np.asarray(
            [value for row in entries for value in row] if is_table else entries, column.dtype
        )
    sizes = [len(ply["legal_actions"]) for ply in plies]
    return GameColumns(
        **arrays, offsets=np.cumsum([0, *sizes], dtype=np.int32), result=result, reason=reason
    )
