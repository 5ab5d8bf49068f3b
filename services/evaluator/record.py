"""The records of games that the evaluator plays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

import numpy as np
from zerofleet_core import GameColumns

from zerofleet.games import State
from zerofleet.records import GameRecord, changed, joined, new_game_uid


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search knew when it chose an action; values are for the player to move."""

    legal_actions: Sequence[int]  # in ascending order
    visit_counts: Sequence[int]
    priors: Sequence[float]
    root_value: float
    network_value: float
    best_child_value: float  # of the most visited action
    simulations: int


@dataclass(frozen=True, slots=True)
class Ply:
    """An action and the search that chose it; None where none did."""

    action: int
    searched: Searched | None


@dataclass(frozen=True, slots=True)
class Ending:
    """How a game ended."""

    result: int  # +1 the first player won, -1 the second did, 0 a draw
    reason: Literal["rules", "resign"]


def match_record(
    name: str,
    game: GameColumns,
    versions: tuple[int, int],
    started_at: datetime,
    finished_at: datetime,
) -> GameRecord:
    """The record of a game of the core's match, with a model named at every ply.

    Args:
        name: of the game.
        game: finished.
        versions: models of the first and the second player; 0 for one without a model.
        started_at: of the match's play.
        finished_at: of this game.
    """
    named = changed(game, model_version=np.asarray(versions, np.int32)[game.to_play])
    return GameRecord(new_game_uid(started_at), name, named, started_at, finished_at)


def played_record(
    name: str,
    plies: Sequence[Ply],
    versions: tuple[int, int],
    ending: Ending,
    times: tuple[datetime, datetime],
) -> GameRecord:
    """The record of a game from its plies.

    A ply that was not searched (of an opening, or of an anchor) carries in its table how an opening
    is chosen, every legal action alike (``priors``) and none visited; ``simulations`` of 0
    tell it apart.

    Args:
        name: of the game.
        plies: one or more.
        versions: models of the first and the second player; 0 for an anchor.
        ending: how the game ended.
        times: when it started and when it finished.
    """
    state = State(name)
    rows: list[dict[str, Any]] = []
    for ply in plies:
        searched = ply.searched or _unsearched(state.legal_actions())
        rows.append(
            asdict(searched)
            | {
                "action": ply.action,
                "to_play": state.to_play,
                "model_version": versions[state.to_play],
                "full_search": searched.simulations > 0,
                "policy_weights": searched.visit_counts,  # nothing is learned from these games
            }
        )
        state.apply(ply.action)
    columns = joined(rows, result=ending.result, reason=ending.reason)
    return GameRecord(new_game_uid(times[0]), name, columns, *times)


def _unsearched(legal: list[int]) -> Searched:
    count = len(legal)
    return Searched(legal, [0] * count, [1 / count] * count, 0.0, 0.0, 0.0, 0)
