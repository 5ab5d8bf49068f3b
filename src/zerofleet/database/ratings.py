"""Ratings, and the results between players that they follow from.

A player is named by a text: a model by its version (``"12"``), an anchor by its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from zerofleet.database.connection import ConnectionPool

RatingPlace: TypeAlias = tuple[str, str, int, int]
"""A game of the rating pool: player, opponent, opening, colour of the player."""

_UPSERT = """
WITH given AS (
    SELECT * FROM unnest(
        CAST(:players AS text[]), CAST(:elos AS float8[]), CAST(:errors AS float8[])
    ) AS g (player, elo, elo_error)
), counted AS (
    SELECT player, count(*) AS games FROM (
        SELECT first_player AS player FROM rated_games WHERE run = :run AND NOT repeated
        UNION ALL
        SELECT second_player FROM rated_games WHERE run = :run AND NOT repeated
    ) AS sides GROUP BY player
)
INSERT INTO ratings (run, player, elo, elo_error, games)
SELECT :run, player, elo, elo_error, coalesce(games, 0)
FROM given LEFT JOIN counted USING (player)
ON CONFLICT (run, player) DO UPDATE SET
    elo = excluded.elo, elo_error = excluded.elo_error, games = excluded.games, at = now()
"""


@dataclass(frozen=True, slots=True)
class PlayerResult:
    """What two players of a run took from each other when ``player`` moved first."""

    player: str
    opponent: str
    wins: int  # by player
    draws: int
    losses: int


@dataclass(frozen=True, slots=True)
class RatingRow:
    """A player's strength among the players of its run."""

    run: str
    player: str
    version: int | None  # of a model; None: an anchor
    elo: float
    elo_error: float  # standard error
    games: int
    at: datetime


class Ratings(ConnectionPool):
    """Reading results between players, writing and reading ratings."""

    def rating_places(self, run: str) -> set[RatingPlace]:
        """The places of the rating pool that hold a game."""
        rows = self._rows(
            "SELECT player, opponent, opening, color FROM match_games JOIN matches "
            "USING (match_id) WHERE run = :run AND kind = 'rating'",
            run=run,
        )
        return {(row.player, row.opponent, row.opening, row.color) for row in rows}

    def player_results(self, run: str) -> list[PlayerResult]:
        """All games between two players, of every kind of match: what ratings follow from.

        A game that two players without chance repeated, move by move, is counted once. Games of a
        model in a named precision are left out: they say nothing of the version.
        """
        rows = self._rows(
            "SELECT first_player, second_player, count(*) FILTER (WHERE result = 1), "
            "count(*) FILTER (WHERE result = 0), count(*) FILTER (WHERE result = -1) "
            "FROM rated_games WHERE run = :run AND NOT repeated "
            "GROUP BY first_player, second_player ORDER BY first_player, second_player",
            run=run,
        )
        return [PlayerResult(*row) for row in rows]

    def upsert_ratings(self, run: str, ratings: Sequence[tuple[str, float, float]]) -> None:
        """Replace ratings, given as (player, elo, standard error)."""
        if ratings:
            players, elos, errors = (list(column) for column in zip(*ratings, strict=True))
            self._run(_UPSERT, run=run, players=players, elos=elos, errors=errors)

    def ratings(self, run: str) -> list[RatingRow]:
        """The ratings of a run: its models, the oldest first, then anchors by name."""
        rows = self._rows(
            "SELECT run, player, version, elo, elo_error, games, at FROM ratings "
            "WHERE run = :run ORDER BY version NULLS LAST, player",
            run=run,
        )
        return [RatingRow(*row) for row in rows]
