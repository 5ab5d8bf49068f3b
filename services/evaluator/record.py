"""The records of games that the evaluator plays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from zerofleet_core import EngineGame

from zerofleet.games import State
from zerofleet.records import GameRecord, new_game_uid


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search knew when it chose an action; values are for the player to move."""

    actions: Sequence[int]  # all legal ones, in ascending order
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
    game: EngineGame,
    versions: tuple[int, int],
    started_at: datetime,
    finished_at: datetime,
) -> GameRecord:
    """Turn the engine's columns into a record that names a model at every ply.

    Args:
        name: of the game.
        game: finished.
        versions: models of the first and the second player.
        started_at: of the match's play.
        finished_at: of this game.
    """
    assert game.result is not None, "an unfinished game was taken as finished"
    plies = [Ply(int(action), _searched(game, ply)) for ply, action in enumerate(game.actions)]
    return played_record(
        name, plies, versions, Ending(game.result, "rules"), (started_at, finished_at)
    )


def played_record(
    name: str,
    plies: Sequence[Ply],
    versions: tuple[int, int],
    ending: Ending,
    times: tuple[datetime, datetime],
) -> GameRecord:
    """The record of a game from its plies.

    A ply that was not searched (of an opening, or of an anchor) carries in its table how an opening
    is chosen, every legal action alike (``child_priors``) and none visited; ``simulations`` of 0
    tell it apart.

    Args:
        name: of the game.
        plies: one or more.
        versions: models of the first and the second player; 0 for an anchor.
        ending: how the game ended.
        times: when it started and when it finished.
    """
    tables, movers = _replayed(name, plies)
    visit_counts = _joined((table.visit_counts for table in tables), np.int32)
    return GameRecord(
        game_uid=new_game_uid(times[0]),
        game=name,
        actions=np.asarray([ply.action for ply in plies], np.int16),
        model_versions=np.asarray(versions, np.int32)[movers],
        root_values=np.asarray([table.root_value for table in tables], np.float32),
        network_values=np.asarray([table.network_value for table in tables], np.float32),
        best_child_values=np.asarray([table.best_child_value for table in tables], np.float32),
        simulations=np.asarray([table.simulations for table in tables], np.int32),
        full_search=np.asarray([table.simulations > 0 for table in tables], np.bool_),
        offsets=np.cumsum([0, *(len(table.actions) for table in tables)], dtype=np.int32),
        child_actions=_joined((table.actions for table in tables), np.int16),
        child_visit_counts=visit_counts,
        child_priors=_joined((table.priors for table in tables), np.float32),
        child_policy_weights=visit_counts,  # nobody learns from these games
        result=ending.result,
        reason=ending.reason,
        started_at=times[0],
        finished_at=times[1],
        to_play=None if (movers == np.arange(len(plies)) % 2).all() else movers,
    )


def _searched(game: EngineGame, ply: int) -> Searched | None:
    if game.simulations[ply] == 0:
        return None
    children = slice(game.offsets[ply], game.offsets[ply + 1])
    return Searched(
        actions=game.child_actions[children].tolist(),
        visit_counts=game.child_visit_counts[children].tolist(),
        priors=game.child_priors[children].tolist(),
        root_value=float(game.root_values[ply]),
        network_value=float(game.network_values[ply]),
        best_child_value=float(game.best_child_values[ply]),
        simulations=int(game.simulations[ply]),
    )


def _replayed(name: str, plies: Sequence[Ply]) -> tuple[list[Searched], NDArray[np.int8]]:
    """The table of each ply, and who moved: [plies] int8."""
    state = State(name)
    tables: list[Searched] = []
    movers: list[int] = []
    for ply in plies:
        movers.append(state.to_play)
        tables.append(ply.searched or _unsearched(state.legal_actions()))
        state.apply(ply.action)
    return tables, np.asarray(movers, np.int8)


def _unsearched(legal: list[int]) -> Searched:
    count = len(legal)
    return Searched(legal, [0] * count, [1 / count] * count, 0.0, 0.0, 0.0, 0)


def _joined(rows: Iterable[Sequence[float]], dtype: type[np.number]) -> NDArray[Any]:
    return np.concatenate([np.asarray(row, dtype) for row in rows])
