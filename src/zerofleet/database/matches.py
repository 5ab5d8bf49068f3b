"""Matches as rows: the verdict is a function of what is stored, whoever asks and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from sqlalchemy import text

from zerofleet.database.connection import ConnectionPool
from zerofleet.database.submission import Submission, encode_submissions
from zerofleet.errors import RecordRejectedError, StaleEpochError
from zerofleet.records import GameRecord

Verdict = Literal["promoted", "rejected", "skipped"]

_COLUMNS = (
    "match_id, run, candidate, best, games, threshold, num_simulations, seed, verdict, "
    "candidate_score, created_at, decided_at"
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


@dataclass(frozen=True, slots=True)
class PairResult:
    """All games that two models of a run ever played against each other in matches."""

    candidate: int
    best: int
    wins: int  # by the candidate
    draws: int
    losses: int


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
    ) -> MatchRow:
        """Begin a match, or go on with the undecided one between the same two models.

        Raises:
            StaleEpochError: another evaluator has taken over.
        """
        with self._transaction() as connection:
            connection.execute(
                text(
                    "INSERT INTO matches (run, candidate, best, games, threshold, "
                    "num_simulations, seed, epoch) VALUES (:run, :candidate, :best, :games, "
                    ":threshold, :num_simulations, :seed, :epoch) "
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
        submissions = [Submission(game.record, kind="match") for game in games]
        parameters = {"run": run, "worker": worker, "games": encode_submissions(submissions)}
        with self._transaction() as connection:
            answers = connection.execute(
                text(
                    "SELECT game_uid, status, reason "
                    "FROM submit_games(:run, :worker, CAST(:games AS json))"
                ),
                parameters,
            )
            for game_uid, status, reason in answers:
                if status in ("conflict", "rejected"):
                    raise RecordRejectedError(f"game {game_uid}: {reason}")
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

    def decide_match(self, match_id: int, verdict: Verdict, *, epoch: int) -> None:
        """Write a verdict down; ``promote`` does it for the winner's match. Repeatable.

        Raises:
            StaleEpochError: another evaluator has taken over, or decided otherwise.
        """
        with self._transaction() as connection:
            connection.execute(
                text(
                    "UPDATE matches SET verdict = :verdict, decided_at = now(), epoch = :epoch, "
                    "candidate_score = (SELECT avg(candidate_score) FROM match_games AS g "
                    "WHERE g.match_id = matches.match_id) "
                    "WHERE match_id = :match_id AND verdict IS NULL"
                ),
                {"match_id": match_id, "verdict": verdict, "epoch": epoch},
            )
            decided = connection.scalar(
                text("SELECT verdict FROM matches WHERE match_id = :match_id"),
                {"match_id": match_id},
            )
        if decided != verdict:
            raise StaleEpochError(f"match {match_id} was decided otherwise: {decided}")

    def pair_results(self, run: str) -> list[PairResult]:
        """What every two models that met took from each other: the ground of ratings."""
        rows = self._rows(
            "SELECT candidate, best, count(*) FILTER (WHERE g.candidate_score = 1), "
            "count(*) FILTER (WHERE g.candidate_score = 0.5), "
            "count(*) FILTER (WHERE g.candidate_score = 0) "
            "FROM matches JOIN match_games AS g USING (match_id) WHERE run = :run "
            "GROUP BY candidate, best ORDER BY candidate, best",
            run=run,
        )
        return [PairResult(*row) for row in rows]
