"""Game records for tests: random legal play under made-up searches, from a seed."""

from __future__ import annotations

import dataclasses
import random
from datetime import UTC, datetime, timedelta

import numpy as np
from zerofleet_core import State

from zerofleet.records import GameRecord, game_uid_of

_START = datetime(2026, 1, 1, tzinfo=UTC)


def random_record(
    seed: int, game: str = "tic_tac_toe", *, model_version: int = 1, plies: int | None = None
) -> GameRecord:
    """A whole game of random moves, or its first ``plies``; the same seed gives the same record.

    With an odd seed the training target is not the visit counts.
    """
    generator = random.Random(f"{game} {seed}")
    game_uid = game_uid_of(_START, generator.getrandbits(128))
    state = State(game)
    actions: list[int] = []
    tables: list[list[int]] = []
    while not state.is_terminal and len(actions) != plies:
        tables.append(list(state.legal_actions()))
        actions.append(generator.choice(tables[-1]))
        state.apply(actions[-1])
    length, children = len(actions), sum(map(len, tables))
    arrays = np.random.default_rng(seed)
    record = GameRecord(
        game_uid=game_uid,
        game=game,
        actions=np.asarray(actions, np.int16),
        model_versions=np.full(length, model_version, np.int32),
        root_values=arrays.uniform(-1, 1, length).astype(np.float32),
        network_values=arrays.uniform(-1, 1, length).astype(np.float32),
        best_child_values=np.empty(0, np.float32),
        simulations=np.full(length, 50, np.int32),
        full_search=arrays.random(length) < 0.5,
        offsets=np.cumsum([0, *map(len, tables)]).astype(np.int32),
        child_actions=np.asarray([a for table in tables for a in table], np.int16),
        child_visit_counts=arrays.integers(0, 50, children, np.int32),
        child_priors=arrays.random(children, np.float32),
        child_policy_weights=np.empty(0, np.int32),
        result=state.result if state.is_terminal else None,
        reason="rules",
        started_at=_START,
        finished_at=_START + timedelta(seconds=length) if state.is_terminal else None,
    )
    visits = record.child_visit_counts
    return dataclasses.replace(
        record,
        best_child_values=arrays.uniform(-1, 1, length).astype(np.float32),
        child_policy_weights=visits - ((visits > 1) & bool(seed % 2)).astype(np.int32),
    )


def target_record(seed: int) -> GameRecord:
    """A random game of tic-tac-toe of which every ply is a position to train on."""
    record = random_record(seed)
    return dataclasses.replace(
        record,
        full_search=np.ones(record.length, np.bool_),
        child_visit_counts=record.child_visit_counts + np.int32(1),
        child_policy_weights=record.child_visit_counts + np.int32(1),
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
    return dataclasses.replace(
        record,
        result=-1 if State(game, record.actions.tolist()).to_play == 0 else 1,
        reason="resign",
        finished_at=_START + timedelta(seconds=plies),
        resign_threshold=-0.5,
    )
