"""Matches of a variant against the same model in fp32: games, verdicts, and what follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text

from zerofleet.database.connection import ConnectionPool
from zerofleet.database.matches import MatchGame, MatchScore, Pair, store_match_records
from zerofleet.errors import StaleEpochError

_COLUMNS = (
    "seq, run, precision, version, games, wins, draws, losses, score, low, high, accepted, at"
)
# Only a game that is stored counts, and the first one delivered for its place in the match.
_RECORD = """
INSERT INTO variant_games
    (run, version, precision, opening, variant_color, game_uid, variant_score, epoch)
SELECT :run, :version, :precision, :opening, :variant_color, game_uid,
    CASE WHEN :variant_color = 0 THEN result + 1 ELSE 1 - result END / 2.0, :epoch
FROM games WHERE game_uid = CAST(:game_uid AS uuid)
ON CONFLICT DO NOTHING
"""
_DECIDE = """
INSERT INTO variant_verdicts
    (run, precision, version, games, wins, draws, losses, score, low, high, accepted, epoch)
VALUES
    (:run, :precision, :version, :games, :wins, :draws, :losses, :score, :low, :high, :accepted,
    :epoch)
ON CONFLICT (run, precision, version) DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class VariantVerdict:
    """How a variant fared against fp32 of the same model; of two, the greater ``seq`` holds."""

    seq: int
    run: str
    precision: str
    version: int
    games: int
    wins: int  # of the variant, as all below
    draws: int
    losses: int
    score: float  # points per game, a draw is half a point
    low: float  # ends of its 95% interval
    high: float
    accepted: bool
    at: datetime


class VariantMatches(ConnectionPool):
    """Writing and reading matches between precisions, one for each variant at most."""

    def record_variant_games(
        self,
        run: str,
        worker: str,
        version: int,
        precision: str,
        games: Sequence[MatchGame],
        *,
        epoch: int,
    ) -> None:
        """Store finished games of a match: the game, its positions and its place, at once.

        A place that holds a game keeps it; repeating a delivery does nothing.

        Args:
            run: name of the run.
            worker: who played.
            version: of the model that played itself.
            precision: of the variant.
            games: the variant is their candidate.
            epoch: the evaluator's fence epoch.

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
                        "version": version,
                        "precision": precision,
                        "opening": game.opening,
                        "variant_color": game.candidate_color,
                        "game_uid": str(game.record.game_uid),
                        "epoch": epoch,
                    }
                    for game in games
                ],
            )

    def variant_places(self, run: str, version: int, precision: str) -> set[tuple[int, int]]:
        """The places of a match that hold a game, as (opening, the variant's colour)."""
        rows = self._rows(
            "SELECT opening, variant_color FROM variant_games "
            "WHERE run = :run AND version = :version AND precision = :precision",
            run=run,
            version=version,
            precision=precision,
        )
        return {(row.opening, row.variant_color) for row in rows}

    def variant_pairs(self, run: str, version: int, precision: str) -> list[Pair]:
        """The pairs of a match that are complete, in the order of their openings.

        A game is repeated when the same actions were played from the start to the end in a game of
        an earlier opening of this match in which the variant had the same colour.
        """
        rows = self._rows(
            "WITH played AS (SELECT p.opening, p.variant_color, p.variant_score, row_number() "
            "OVER (PARTITION BY p.variant_color, g.moves ORDER BY p.opening) > 1 AS repeated "
            "FROM variant_games AS p JOIN games AS g USING (game_uid) WHERE p.run = :run "
            "AND p.version = :version AND p.precision = :precision) "
            "SELECT opening, max(variant_score) FILTER (WHERE variant_color = 0) AS first, "
            "max(variant_score) FILTER (WHERE variant_color = 1) AS second, "
            "bool_and(repeated) AS repeated "
            "FROM played GROUP BY opening HAVING count(*) = 2 ORDER BY opening",
            run=run,
            version=version,
            precision=precision,
        )
        return [Pair(row.opening, (row.first, row.second), row.repeated) for row in rows]

    def decide_variant(
        self,
        run: str,
        version: int,
        precision: str,
        score: MatchScore,
        interval: tuple[float, float],
        *,
        accepted: bool,
        epoch: int,
    ) -> VariantVerdict:
        """Write the verdict of a match down. Repeatable: a match that is decided stays so.

        Args:
            run: name of the run.
            version: of the model that played itself.
            precision: of the variant.
            score: wins, draws and losses of the variant.
            interval: the ends of the score's 95% interval.
            accepted: whether inference may use the precision.
            epoch: the evaluator's fence epoch.

        Returns:
            The match's verdict.

        Raises:
            StaleEpochError: another evaluator has taken over, or decided otherwise.
        """
        low, high = interval
        with self._transaction() as connection:
            match = {"run": run, "precision": precision, "version": version}
            connection.execute(
                text(_DECIDE),
                {
                    **match,
                    "games": score.games,
                    "wins": score.wins,
                    "draws": score.draws,
                    "losses": score.losses,
                    "score": score.score,
                    "low": low,
                    "high": high,
                    "accepted": accepted,
                    "epoch": epoch,
                },
            )
            row = connection.execute(
                text(
                    f"SELECT {_COLUMNS} FROM variant_verdicts WHERE run = :run "
                    "AND precision = :precision AND version = :version"
                ),
                match,
            ).one()
        verdict = VariantVerdict(*row)
        if verdict.accepted != accepted:
            raise StaleEpochError(
                f"the match of model {version} in {precision} was decided otherwise"
            )
        return verdict

    def variant_verdict(self, run: str, precision: str) -> VariantVerdict | None:
        """The newest verdict on a precision: the one that holds. None before the first match."""
        rows = self._rows(
            f"SELECT {_COLUMNS} FROM variant_verdicts WHERE run = :run AND precision = :precision "
            "ORDER BY seq DESC LIMIT 1",
            run=run,
            precision=precision,
        )
        return VariantVerdict(*rows[0]) if rows else None

    def variant_verdicts(self, run: str) -> list[VariantVerdict]:
        """Every verdict of a run, oldest first."""
        rows = self._rows(
            f"SELECT {_COLUMNS} FROM variant_verdicts WHERE run = :run ORDER BY seq", run=run
        )
        return [VariantVerdict(*row) for row in rows]
