"""The record of a match's game."""

from __future__ import annotations

from datetime import datetime
from uuid import uuid4

import numpy as np
from zerofleet_core import EngineGame

from zerofleet.games import State
from zerofleet.records import GameRecord


def match_record(
    name: str,
    game: EngineGame,
    versions: tuple[int, int],
    started_at: datetime,
    finished_at: datetime,
) -> GameRecord:
    """Turn the engine's columns into a record that names a model at every ply.

    The plies of the opening were not searched: the engine leaves their tables empty. In the record
    they carry how they were really chosen, every legal action alike (``child_priors``) and none
    visited, and the model that plays their colour; ``simulations`` of 0 tells them apart.

    Args:
        name: of the game.
        game: finished.
        versions: models of the first and the second player.
        started_at: of the match's play.
        finished_at: of this game.
    """
    state = State(name)
    actions: list[list[int]] = []
    visits: list[list[int]] = []
    priors: list[list[float]] = []
    for ply, action in enumerate(game.actions.tolist()):
        children = slice(game.offsets[ply], game.offsets[ply + 1])
        legal = state.legal_actions()
        searched = game.simulations[ply] > 0
        actions.append(game.child_actions[children].tolist() if searched else legal)
        visits.append(game.child_visit_counts[children].tolist() if searched else [0] * len(legal))
        priors.append(
            game.child_priors[children].tolist() if searched else [1 / len(legal)] * len(legal)
        )
        state.apply(action)
    plies = np.arange(len(game.actions))
    return GameRecord(
        game_uid=uuid4(),
        game=name,
        actions=game.actions,
        model_versions=np.asarray(versions, np.int32)[plies % 2],
        root_values=game.root_values,
        network_values=game.network_values,
        simulations=game.simulations,
        full_search=np.asarray(game.simulations > 0),
        offsets=np.cumsum([0, *map(len, actions)], dtype=np.int32),
        child_actions=np.concatenate([np.asarray(row, np.int16) for row in actions]),
        child_visit_counts=np.concatenate([np.asarray(row, np.int32) for row in visits]),
        child_priors=np.concatenate([np.asarray(row, np.float32) for row in priors]),
        result=game.result,
        reason=game.reason,
        started_at=started_at,
        finished_at=finished_at,
    )
