"""Stored games as people read them: whole, with what the search thought of each ply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Row

from zerofleet.database.connection import ConnectionPool

_COLUMNS = """
SELECT g.game_uid, r.game, g.kind, g.first_model, g.second_model, g.reason,
    g.finished_at, g.moves
FROM games AS g JOIN runs AS r ON r.name = g.run WHERE g.run = :run
"""
_PLIES = """
SELECT action, model_version, root_value, network_value, simulations, actions, visit_counts
FROM positions WHERE game_uid = :game_uid ORDER BY ply
"""


@dataclass(frozen=True, slots=True)
class PlayedPly:
    """One action and the search that chose it; values are for the player who moved."""

    action: int
    model_version: int
    root_value: float  # after search
    network_value: float  # before search
    simulations: int  # 0: the action was given, not searched
    actions: Sequence[int]  # legal ones
    visit_counts: Sequence[int]  # of ``actions``


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """A finished game."""

    game_uid: UUID
    game: str
    kind: str  # "selfplay" or "match"
    first_model: int
    second_model: int | None
    reason: str  # what ended it: "rules" or "resign"
    finished_at: datetime
    moves: str  # in the game's notation
    plies: Sequence[PlayedPly]  # none where the searches are not kept any more


class PlayedGames(ConnectionPool):
    """Reading single games; any role that may select from games and positions."""

    def played_game(self, run: str, game_uid: UUID) -> PlayedGame | None:
        """The game with this uid; None when the run has no such game."""
        rows = self._rows(f"{_COLUMNS} AND game_uid = :uid", run=run, uid=str(game_uid))
        return self._with_plies(rows[0]) if rows else None

    def last_played(self, run: str, games: int) -> list[PlayedGame]:
        """The games that were stored last, newest first."""
        rows = self._rows(
            f"{_COLUMNS} ORDER BY g.ingested_at DESC, g.game_uid LIMIT :games", run=run, games=games
        )
        return [self._with_plies(row) for row in rows]

    def _with_plies(self, row: Row[Any]) -> PlayedGame:
        plies = self._rows(_PLIES, game_uid=row.game_uid)
        return PlayedGame(*row, plies=[PlayedPly(*ply) for ply in plies])
