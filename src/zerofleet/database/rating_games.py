"""Games that only rate, and the ratings that follow from all games between two players.

A player is named by a text: a model by its version (``"12"``), an anchor by its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from sqlalchemy import text

from zerofleet.database.connection import ConnectionPool
from zerofleet.database.matches import store_match_records
from zerofleet.records import GameRecord

RatingPlace: TypeAlias = tuple[str, str, int]
"""First player, second player, opening."""

# Only a game that is stored counts, and the first one delivered for its place.
_RECORD = """
INSERT INTO rating_games
    (run, first_player, second_player, opening, game_uid, remark, epoch)
SELECT :run, :first_player, :second_player, :opening, game_uid, :remark, :epoch
FROM games WHERE game_uid = CAST(:game_uid AS uuid)
ON CONFLICT DO NOTHING
"""
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
INSERT INTO {table} (run, {column}, elo, elo_error, games)
SELECT :run, CAST(player AS {type}), elo, elo_error, coalesce(games, 0)
FROM given LEFT JOIN counted USING (player)
ON CONFLICT (run, {column}) DO UPDATE SET
    elo = excluded.elo, elo_error = excluded.elo_error, games = excluded.games, at = now()
"""


@dataclass(frozen=True, slots=True)
class RatingGame:
    """A game's place among the rating games, and the game."""

    place: RatingPlace
    record: GameRecord
    remark: str | None = None  # why it ended before the rules ended it


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
    """A model's strength among the players of its run."""

    run: str
    version: int
    elo: float
    elo_error: float  # standard error
    games: int
    at: datetime


@dataclass(frozen=True, slots=True)
class AnchorRatingRow:
    """A fixed opponent's strength on the same scale."""

    run: str
    anchor: str
    elo: float
    elo_error: float  # standard error
    games: int
    at: datetime


class RatingGames(ConnectionPool):
    """Writing rating games and ratings, and reading them."""

    def record_rating_games(
        self, run: str, worker: str, games: Sequence[RatingGame], *, epoch: int
    ) -> None:
        """Store finished rating games: the game, its positions and its place, at once.

        A place that holds a game keeps it; repeating a delivery does nothing.

        Raises:
            RecordRejectedError: a record contradicts itself; nothing is stored.
            StaleEpochError: another evaluator has taken over.
        """
        with self._transaction() as connection:
            store_match_records(connection, run, worker, [game.record for game in games])
            connection.execute(
                text(_RECORD),
                [
                    {
                        "run": run,
                        "first_player": game.place[0],
                        "second_player": game.place[1],
                        "opening": game.place[2],
                        "game_uid": str(game.record.game_uid),
                        "remark": game.remark,
                        "epoch": epoch,
                    }
                    for game in games
                ],
            )

    def rating_places(self, run: str) -> set[RatingPlace]:
        """The places that hold a game."""
        rows = self._rows(
            "SELECT first_player, second_player, opening FROM rating_games WHERE run = :run",
            run=run,
        )
        return {(row.first_player, row.second_player, row.opening) for row in rows}

    def player_results(self, run: str) -> list[PlayerResult]:
        """All games between two players, for a gate or for a rating: the ground of ratings.

        A game that two players without chance repeated, move by move, is counted once.
        """
        rows = self._rows(
            "SELECT first_player, second_player, count(*) FILTER (WHERE result = 1), "
            "count(*) FILTER (WHERE result = 0), count(*) FILTER (WHERE result = -1) "
            "FROM rated_games WHERE run = :run AND NOT repeated "
            "GROUP BY first_player, second_player ORDER BY first_player, second_player",
            run=run,
        )
        return [PlayerResult(*row) for row in rows]

    def upsert_ratings(self, run: str, ratings: Sequence[tuple[int, float, float]]) -> None:
        """Replace the ratings of models, given as (version, elo, standard error)."""
        rated = [(str(version), elo, error) for version, elo, error in ratings]
        self._upsert(_UPSERT.format(table="ratings", column="version", type="integer"), run, rated)

    def upsert_anchor_ratings(self, run: str, ratings: Sequence[tuple[str, float, float]]) -> None:
        """Replace the ratings of anchors, given as (anchor, elo, standard error)."""
        statement = _UPSERT.format(table="anchor_ratings", column="anchor", type="text")
        self._upsert(statement, run, ratings)

    def _upsert(
        self, statement: str, run: str, ratings: Sequence[tuple[str, float, float]]
    ) -> None:
        if not ratings:
            return
        players, elos, errors = (list(column) for column in zip(*ratings, strict=True))
        self._run(statement, run=run, players=players, elos=elos, errors=errors)

    def ratings(self, run: str) -> list[RatingRow]:
        """The ratings of a run's models, oldest model first."""
        rows = self._rows(
            "SELECT run, version, elo, elo_error, games, at FROM ratings "
            "WHERE run = :run ORDER BY version",
            run=run,
        )
        return [RatingRow(*row) for row in rows]

    def anchor_ratings(self, run: str) -> list[AnchorRatingRow]:
        """The ratings of a run's anchors, by name."""
        rows = self._rows(
            "SELECT run, anchor, elo, elo_error, games, at FROM anchor_ratings "
            "WHERE run = :run ORDER BY anchor",
            run=run,
        )
        return [AnchorRatingRow(*row) for row in rows]
