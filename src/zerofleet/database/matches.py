"""Matches as rows: the verdict is a function of what is stored, whoever asks and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from sqlalchemy import Connection, text

from zerofleet.database.connection import ConnectionPool
from zerofleet.database.submission import Submission, encode_submissions
from zerofleet.database.verdicts import Grounds, Verdict, write_verdict
from zerofleet.errors import RecordRejectedError, StaleEpochError
from zerofleet.records import GameRecord

_COLUMNS = (
    "match_id, run, candidate, best, games, threshold, num_simulations, seed, verdict, "
    "candidate_score, created_at, decided_at, test, sprt_elo0, sprt_elo1, sprt_error, draws_only, "
    "decided_by, llr, games_counted, duplicates"
)
# Only a game that is stored counts, and the first one delivered for its place in the match.
_RECORD = """
INSERT INTO match_games (match_id, opening, candidate_color, game_uid, candidate_score)
SELECT :match_id, :opening, :candidate_color, game_uid,
    CASE WHEN :candidate_color = 0 THEN result + 1 ELSE 1 - result END / 2.0
FROM games WHERE game_uid = CAST(:game_uid AS uuid)
ON CONFLICT DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class MatchRow:
    """A match between a candidate and the model that was best then."""

    match_id: int
    run: str
    candidate: int
    best: int
    games: int  # when it is over
    threshold: float
    num_simulations: int
    seed: int
    verdict: Verdict | None
    candidate_score: float | None
    created_at: datetime
    decided_at: datetime | None
    test: Literal["fixed", "sprt"] = "fixed"
    sprt_elo0: float | None = None
    sprt_elo1: float | None = None
    sprt_error: float | None = None
    draws_only: Literal["promote", "reject"] | None = None  # None: the threshold decides
    decided_by: str | None = None
    llr: float | None = None
    games_counted: int | None = None
    duplicates: int | None = None


@dataclass(frozen=True, slots=True)
class MatchTest:
    """The rule of a match beyond its threshold; a match keeps the one that it began with."""

    sprt_elo: tuple[float, float] | None = None  # None: no sequential test
    sprt_error: float | None = None
    draws_only: Literal["promote", "reject"] | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Both games of one opening, as the candidate sees them."""

    opening: int
    scores: tuple[float, float]  # as the first player, as the second
    repeated: bool  # both games repeat, move by move, a game of an earlier pair

    @property
    def points(self) -> float:
        """Of the candidate, from 0 to 2."""
        return sum(self.scores)


@dataclass(frozen=True, slots=True)
class MatchGame:
    """A game's place in its match, and the game."""

    opening: int
    candidate_color: int  # 0: the candidate is the first player, 1: the second
    record: GameRecord


@dataclass(frozen=True, slots=True)
class MatchScore:
    """How the stored games of a match ended, as the candidate sees them."""

    wins: int
    draws: int
    losses: int

    @property
    def games(self) -> int:
        """Games played."""
        return self.wins + self.draws + self.losses

    @property
    def score(self) -> float:
        """Points per game, a draw is half a point; 0 before the first game."""
        return (self.wins + self.draws / 2) / self.games if self.games else 0.0


class Matches(ConnectionPool):
    """The evaluator's games and verdicts."""

    def create_match(
        self,
        run: str,
        candidate: int,
        best: int,
        *,
        games: int,
        threshold: float,
        num_simulations: int,
        seed: int,
        epoch: int,
        test: MatchTest | None = None,
    ) -> MatchRow:
        """Begin a match, or go on with the undecided one between the same two models.

        Args:
            run: name of the run.
            candidate: version of the model that is judged.
            best: version of the model that is best.
            games: of the match; with a sequential test the most of them.
            threshold: the candidate is promoted when its score is above this.
            num_simulations: for each move.
            seed: of the openings.
            epoch: the evaluator's fence epoch.
            test: what else the verdict depends on; None: nothing.

        Raises:
            StaleEpochError: another evaluator has taken over.
        """
        test = test or MatchTest()
        with self._transaction() as connection:
            connection.execute(
                text(
                    "INSERT INTO matches (run, candidate, best, games, threshold, "
                    "num_simulations, seed, epoch, test, sprt_elo0, sprt_elo1, sprt_error, "
                    "draws_only) VALUES (:run, :candidate, :best, :games, "
                    ":threshold, :num_simulations, :seed, :epoch, :test, :sprt_elo0, :sprt_elo1, "
                    ":sprt_error, :draws_only) "
                    "ON CONFLICT (run, candidate, best) WHERE verdict IS NULL DO NOTHING"
                ),
                {
                    "run": run,
                    "candidate": candidate,
                    "best": best,
                    "games": games,
                    "threshold": threshold,
                    "num_simulations": num_simulations,
                    "seed": seed,
                    "epoch": epoch,
                    "test": "sprt" if test.sprt_elo else "fixed",
                    "sprt_elo0": test.sprt_elo[0] if test.sprt_elo else None,
                    "sprt_elo1": test.sprt_elo[1] if test.sprt_elo else None,
                    "sprt_error": test.sprt_error,
                    "draws_only": test.draws_only,
                },
            )
            row = connection.execute(
                text(
                    f"SELECT {_COLUMNS} FROM matches WHERE run = :run AND candidate = :candidate "
                    "AND best = :best AND verdict IS NULL"
                ),
                {"run": run, "candidate": candidate, "best": best},
            ).one()
            return MatchRow(*row)

    def matches(self, run: str) -> list[MatchRow]:
        """Every match of a run, oldest first."""
        rows = self._rows(
            f"SELECT {_COLUMNS} FROM matches WHERE run = :run ORDER BY match_id", run=run
        )
        return [MatchRow(*row) for row in rows]

    def record_match_games(
        self, run: str, worker: str, match_id: int, games: Sequence[MatchGame]
    ) -> None:
        """Store finished games of a match: the game, its positions and its place, at once.

        A place that holds a game keeps it; repeating a delivery does nothing.

        Raises:
            RecordRejectedError: a record contradicts itself; nothing is stored.
        """
        with self._transaction() as connection:
            store_match_records(connection, run, worker, [game.record for game in games])
            connection.execute(
                text(_RECORD),
                [
                    {
                        "match_id": match_id,
                        "opening": game.opening,
                        "candidate_color": game.candidate_color,
                        "game_uid": str(game.record.game_uid),
                    }
                    for game in games
                ],
            )

    def record_match_game(
        self, run: str, worker: str, match_id: int, opening: int, candidate_color: int,
        record: GameRecord,
    ) -> None:  # fmt: skip
        """Store one finished game of a match, as ``record_match_games``."""
        self.record_match_games(
            run, worker, match_id, [MatchGame(opening, candidate_color, record)]
        )

    def match_places(self, match_id: int) -> set[tuple[int, int]]:
        """The places of a match that hold a game, as (opening, candidate_color)."""
        rows = self._rows(
            "SELECT opening, candidate_color FROM match_games WHERE match_id = :match_id",
            match_id=match_id,
        )
        return {(row.opening, row.candidate_color) for row in rows}

    def match_game_uids(self, match_id: int) -> dict[tuple[int, int], UUID]:
        """The games of a match by place."""
        rows = self._rows(
            "SELECT opening, candidate_color, game_uid::text AS uid "
            "FROM match_games WHERE match_id = :match_id",
            match_id=match_id,
        )
        return {(row.opening, row.candidate_color): UUID(row.uid) for row in rows}

    def match_score(self, match_id: int) -> MatchScore:
        """Wins, draws and losses of the candidate, counted from the stored games."""
        [row] = self._rows(
            "SELECT count(*) FILTER (WHERE candidate_score = 1), "
            "count(*) FILTER (WHERE candidate_score = 0.5), "
            "count(*) FILTER (WHERE candidate_score = 0) "
            "FROM match_games WHERE match_id = :match_id",
            match_id=match_id,
        )
        return MatchScore(*row)

    def match_pairs(self, match_id: int) -> list[Pair]:
        """The pairs of a match that are complete, in the order of their openings.

        A game is repeated when the same actions were played from the start to the end in a game of
        an earlier opening of this match in which the candidate had the same colour.
        """
        rows = self._rows(
            "WITH played AS (SELECT p.opening, p.candidate_color, p.candidate_score, row_number() "
            "OVER (PARTITION BY p.candidate_color, g.moves ORDER BY p.opening) > 1 AS repeated "
            "FROM match_games AS p JOIN games AS g USING (game_uid) WHERE match_id = :match_id) "
            "SELECT opening, max(candidate_score) FILTER (WHERE candidate_color = 0) AS first, "
            "max(candidate_score) FILTER (WHERE candidate_color = 1) AS second, "
            "bool_and(repeated) AS repeated "
            "FROM played GROUP BY opening HAVING count(*) = 2 ORDER BY opening",
            match_id=match_id,
        )
        return [Pair(row.opening, (row.first, row.second), row.repeated) for row in rows]

    def decide_match(
        self, match_id: int, verdict: Verdict, *, epoch: int, grounds: Grounds | None = None
    ) -> None:
        """Write a verdict down; ``promote`` does it for the winner's match. Repeatable.

        Raises:
            StaleEpochError: another evaluator has taken over, or decided otherwise.
        """
        with self._transaction() as connection:
            write_verdict(connection, match_id, verdict, grounds or Grounds(), epoch)
            decided = connection.scalar(
                text("SELECT verdict FROM matches WHERE match_id = :match_id"),
                {"match_id": match_id},
            )
        if decided != verdict:
            raise StaleEpochError(f"match {match_id} was decided otherwise: {decided}")


def store_match_records(
    connection: Connection, run: str, worker: str, records: Sequence[GameRecord]
) -> None:
    """Store games that nobody learns from, in the caller's transaction.

    Raises:
        RecordRejectedError: a record contradicts itself.
    """
    submissions = [Submission(record, kind="match") for record in records]
    answers = connection.execute(
        text(
            "SELECT game_uid, status, reason FROM submit_games(:run, :worker, CAST(:games AS json))"
        ),
        {"run": run, "worker": worker, "games": encode_submissions(submissions)},
    )
    for game_uid, status, reason in answers:
        if status in ("conflict", "rejected"):
            raise RecordRejectedError(f"game {game_uid}: {reason}")
