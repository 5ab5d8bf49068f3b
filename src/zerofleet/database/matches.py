"""Matches, their verdicts, and the ratings that follow from them.

A match consists of pairs of games between two players. A player's name is a text: a model's version
(``"12"``), or an anchor's name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from sqlalchemy import Connection, Row, text

from zerofleet.database.connection import ConnectionPool
from zerofleet.database.finished_games import Submission, encode_submissions
from zerofleet.errors import RecordRejectedError, StaleEpochError
from zerofleet.records import GameRecord
from zerofleet.verdict import GateRule, MatchStatistics, Pair

Verdict = Literal["promoted", "rejected", "skipped"]

# Repeatable: a decided match keeps its verdict.
_DECIDE = """
UPDATE matches SET
    verdict = :verdict, decided_at = now(), epoch = :epoch, decided_by = :decided_by, llr = :llr,
    games_counted = :games_counted, duplicates = :duplicates,
    pentanomial = CAST(:pentanomial AS integer[]),
    score = coalesce(:score, (
        SELECT avg(score) FROM match_games AS g WHERE g.match_id = matches.match_id
    ))
WHERE match_id = :match_id AND verdict IS NULL
"""


PAIRS = """
WITH played AS (
    SELECT p.opening, p.color, p.score,
        row_number() OVER (
            PARTITION BY p.color, g.start, g.moves ORDER BY p.opening
        ) > 1 AS repeated
    FROM match_games AS p JOIN games AS g USING (game_uid) WHERE match_id = :match_id
)
SELECT opening, max(score) FILTER (WHERE color = 0) AS first,
    max(score) FILTER (WHERE color = 1) AS second, bool_and(repeated) AS repeated
FROM played GROUP BY opening HAVING count(*) = 2 ORDER BY opening
"""
"""Query for the complete pairs of a match, for ``pair_of``."""

MatchKind = Literal["gate", "rating", "trial"]

_MODEL = re.compile(r"([1-9][0-9]{0,8})(?:/(fp32|int8|fp16))?")
_COLUMNS = (
    "match_id, run, kind, player, opponent, games, num_simulations, seed, created_at, left_out, "
    "openings, rated, threshold, sprt_elo0, sprt_elo1, sprt_error, draws_only, verdict, "
    "decided_by, decided_at, score, llr, games_counted, duplicates"
)
_OPEN = """
INSERT INTO matches (
    run, kind, player, opponent, games, num_simulations, seed, epoch, threshold, test, sprt_elo0,
    sprt_elo1, sprt_error, draws_only, openings, rated
) VALUES (
    :run, :kind, :player, :opponent, :games, :num_simulations, :seed, :epoch, :threshold, :test,
    :sprt_elo0, :sprt_elo1, :sprt_error, :draws_only, :openings, :rated
) ON CONFLICT DO NOTHING
"""
# A pairing of the rating pool and a trial may be extended to more games. A trial that was left out
# is tried again.
_EXTEND = """
UPDATE matches SET games = greatest(games, :games), left_out = NULL, epoch = :epoch
WHERE run = :run AND kind = :kind AND player = :player AND opponent = :opponent
    AND openings IS NOT DISTINCT FROM :openings
    AND rated = :rated AND (kind <> 'trial' OR num_simulations = :num_simulations)
    AND kind <> 'gate' AND (games < :games OR left_out IS NOT NULL)
"""
_OPENED = f"""
SELECT {_COLUMNS} FROM matches WHERE verdict IS NULL
    AND run = :run AND kind = :kind AND player = :player AND opponent = :opponent
    AND openings IS NOT DISTINCT FROM :openings
    AND rated = :rated AND (kind <> 'trial' OR num_simulations = :num_simulations)
"""
MATCH = f"SELECT {_COLUMNS} FROM matches WHERE match_id = :match_id"
"""Query for ``match_of``."""
# Only stored games count, and only the first one for its place in the match.
_RECORD = """
INSERT INTO match_games (match_id, opening, color, game_uid, score, remark)
SELECT :match_id, :opening, :color, game_uid,
    CASE WHEN :color = 0 THEN result + 1 ELSE 1 - result END / 2.0, :remark
FROM games WHERE game_uid = CAST(:game_uid AS uuid)
ON CONFLICT DO NOTHING
"""

RatingPlace: TypeAlias = tuple[str, str, int, int]
"""Place of a game of the rating pool: player, opponent, opening, colour of the player."""

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


def pair_of(row: Row[Any]) -> Pair:
    """Return a pair from a row of ``PAIRS``."""
    return Pair(row.opening, (row.first, row.second), row.repeated)


def write_verdict(
    connection: Connection, match_id: int, verdict: Verdict, statistics: MatchStatistics, epoch: int
) -> None:
    """Decide a match in the caller's transaction; a decided one stays as it is."""
    parameters: dict[str, Any] = {
        "match_id": match_id,
        "verdict": verdict,
        "epoch": epoch,
        "decided_by": statistics.decided_by,
        "llr": statistics.llr,
        "games_counted": statistics.games_counted,
        "duplicates": statistics.duplicates,
        "pentanomial": None if statistics.pentanomial is None else list(statistics.pentanomial),
        "score": statistics.score,
    }
    connection.execute(text(_DECIDE), parameters)


@dataclass(frozen=True, slots=True)
class ModelName:
    """A player that is a model of the run: ``"12"``, or ``"12/int8"`` in one precision."""

    version: int
    precision: str | None = None  # None: inference's choice

    @classmethod
    def of(cls, player: str) -> ModelName | None:
        """Return the model of a player's name; None for an anchor."""
        found = _MODEL.fullmatch(player)
        return cls(int(found[1]), found[2]) if found else None

    def __str__(self) -> str:
        return str(self.version) if self.precision is None else f"{self.version}/{self.precision}"


@dataclass(frozen=True, slots=True)
class MatchRow:
    """A match between two players of a run, by name; in a gate, candidate against best."""

    match_id: int
    run: str
    kind: MatchKind
    player: str
    opponent: str
    games: int  # total games; with a sequential test the upper limit
    num_simulations: int
    seed: int
    created_at: datetime
    left_out: str | None = None  # why no further games of a trial are played
    openings: tuple[str, ...] = ()  # start positions of a trial; empty: drawn by the seed
    rated: bool = True  # whether the games count for ratings
    rule: GateRule | None = None  # for a gate; the following fields are None for others
    verdict: Verdict | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    score: float | None = None  # points per game of ``player``, over the counted games
    llr: float | None = None
    games_counted: int | None = None
    duplicates: int | None = None

    @property
    def versions(self) -> list[int]:
        """Versions of the players that are models."""
        models = (ModelName.of(name) for name in (self.player, self.opponent))
        return [model.version for model in models if model is not None]

    @property
    def candidate(self) -> int:
        """Version of the model that a gate judges."""
        return int(self.player)

    @property
    def best(self) -> int:
        """Version of the model that was best when a gate's match began."""
        return int(self.opponent)


@dataclass(frozen=True, slots=True)
class MatchGame:
    """A game's place in its match, and the game."""

    opening: int
    color: int  # 0: the first player of the match also moves first, 1: second
    record: GameRecord
    remark: str | None = None  # why it ended before the rules ended it

    @property
    def score(self) -> float:
        """Score of the match's first player: 1 won, 0.5 drawn, 0 lost."""
        return (1 + (self.record.result or 0) * (1 - 2 * self.color)) / 2


@dataclass(frozen=True, slots=True)
class MatchScore:
    """Results of a match's stored games, from its first player's side."""

    wins: int
    draws: int
    losses: int

    @property
    def games(self) -> int:
        """Games played."""
        return self.wins + self.draws + self.losses

    @property
    def score(self) -> float:
        """Points per game, with a draw as half a point; 0 before the first game."""
        return (self.wins + self.draws / 2) / self.games if self.games else 0.0


def match_seed(run_seed: int, kind: MatchKind, player: str, opponent: str) -> int:
    """Return the seed of a match's openings: 63 bits, different for each kind and two players."""
    name = f"{kind} {run_seed} {player} {opponent}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1


class Matches(ConnectionPool):
    """The evaluator's games and verdicts."""

    def open_match(
        self,
        run: str,
        kind: MatchKind,
        player: str,
        opponent: str,
        *,
        games: int,
        num_simulations: int,
        seed: int,
        epoch: int,
        rule: GateRule | None = None,
        openings: Sequence[str] = (),
        rated: bool = True,
    ) -> MatchRow:
        """Begin a match, or continue the one that these players have begun.

        A gate's match continues until it has a verdict. Two players have one match for rating. A
        call with more games extends a match for rating or a trial. A trial that was left out is
        tried again. Trials with different openings, simulations or ``rated`` are separate matches.

        Args:
            kind: purpose of the match.
            player: name of one player; in a gate, the candidate.
            opponent: name of the other; in a gate, the best model.
            games: games of the match; with a sequential test the upper limit.
            num_simulations: simulations for each move.
            seed: seed of the openings.
            epoch: the evaluator's fence epoch.
            rule: rule of a gate; None for other kinds.
            openings: start positions of a trial, each for two games; empty: drawn by the seed.
            rated: whether the games count for ratings; False is allowed only for a trial.

        Raises:
            StaleEpochError: another evaluator has taken over.
            IncompatibleModelError: the files of a player were deleted.
        """
        sprt = rule.sprt_elo if rule else None
        values = {
            "run": run,
            "kind": kind,
            "player": player,
            "opponent": opponent,
            "games": games,
            "num_simulations": num_simulations,
            "seed": seed,
            "epoch": epoch,
            "threshold": rule.threshold if rule else None,
            "test": None if rule is None else "sprt" if sprt else "fixed",
            "sprt_elo0": sprt[0] if sprt else None,
            "sprt_elo1": sprt[1] if sprt else None,
            "sprt_error": rule.sprt_error if rule and sprt else None,
            "draws_only": rule.draws_only if rule else None,
            "openings": "\n".join(openings) or None,
            "rated": rated,
        }
        with self._transaction() as connection:
            connection.execute(text(_OPEN), values)
            connection.execute(text(_EXTEND), values)
            return match_of(connection.execute(text(_OPENED), values).one())

    def matches(self, run: str, kind: MatchKind = "gate") -> list[MatchRow]:
        """Return every match of a run of this kind, oldest first."""
        query = (
            f"SELECT {_COLUMNS} FROM matches WHERE run = :run AND kind = :kind ORDER BY match_id"
        )
        return [match_of(row) for row in self._rows(query, run=run, kind=kind)]

    def match(self, match_id: int) -> MatchRow:
        """Return one match."""
        [row] = self._rows(MATCH, match_id=match_id)
        return match_of(row)

    def unfinished_trials(self, run: str) -> list[MatchRow]:
        """Return the trials that lack games and were not left out.

        The trial with the fewest simulations left is first, so that long ones do not delay it.
        """
        rows = self._rows(
            f"SELECT {_COLUMNS} FROM matches AS m CROSS JOIN LATERAL "
            "(SELECT count(*) AS stored FROM match_games AS g WHERE g.match_id = m.match_id) AS s "
            "WHERE run = :run AND kind = 'trial' AND left_out IS NULL AND games > stored "
            "ORDER BY (games - stored) * num_simulations, match_id",
            run=run,
        )
        return [match_of(row) for row in rows]

    def shorten_match(self, match_id: int, games: int, *, epoch: int) -> None:
        """End a match earlier, because its game has no further openings.

        Raises:
            StaleEpochError: another evaluator has taken over.
        """
        self._run(
            "UPDATE matches SET games = :games, epoch = :epoch WHERE match_id = :match_id",
            match_id=match_id,
            games=games,
            epoch=epoch,
        )

    def leave_out_trial(self, match_id: int, reason: str, *, epoch: int) -> None:
        """Play no further games of a trial until it is requested again.

        Raises:
            StaleEpochError: another evaluator has taken over.
        """
        self._run(
            "UPDATE matches SET left_out = :reason, epoch = :epoch WHERE match_id = :match_id",
            match_id=match_id,
            reason=reason,
            epoch=epoch,
        )

    def record_match_games(
        self, run: str, worker: str, match_id: int, games: Sequence[MatchGame], *, epoch: int
    ) -> None:
        """Store finished games of a match, with their positions and places, in one transaction.

        A place with a game keeps it; repeating a delivery does nothing.

        Raises:
            RecordRejectedError: a record contradicts itself; nothing is stored.
            StaleEpochError: another evaluator has taken over.
        """
        with self._transaction() as connection:
            connection.execute(  # the trigger on matches refuses an older epoch
                text("UPDATE matches SET epoch = :epoch WHERE match_id = :match_id"),
                {"match_id": match_id, "epoch": epoch},
            )
            _store_records(connection, run, worker, [game.record for game in games])
            connection.execute(
                text(_RECORD),
                [
                    {
                        "match_id": match_id,
                        "opening": game.opening,
                        "color": game.color,
                        "game_uid": str(game.record.game_uid),
                        "remark": game.remark,
                    }
                    for game in games
                ],
            )

    def match_places(self, match_id: int) -> set[tuple[int, int]]:
        """Return the places of a match with a game, as (opening, color)."""
        query = "SELECT opening, color FROM match_games WHERE match_id = :match_id"
        return {(row.opening, row.color) for row in self._rows(query, match_id=match_id)}

    def match_score(self, match_id: int) -> MatchScore:
        """Return wins, draws and losses of the match's first player, from the stored games."""
        [row] = self._rows(
            "SELECT count(*) FILTER (WHERE score = 1), count(*) FILTER (WHERE score = 0.5), "
            "count(*) FILTER (WHERE score = 0) FROM match_games WHERE match_id = :match_id",
            match_id=match_id,
        )
        return MatchScore(*row)

    def match_remarks(self, match_id: int) -> list[str]:
        """Return why games of a match ended before the rules ended them, oldest game first."""
        query = (
            "SELECT remark FROM match_games WHERE match_id = :match_id AND remark IS NOT NULL "
            "ORDER BY game_uid"
        )
        return [row.remark for row in self._rows(query, match_id=match_id)]

    def match_pairs(self, match_id: int) -> list[Pair]:
        """Return the complete pairs of a match, in the order of their openings.

        A game is repeated if the same actions were played from start to end in a game of an earlier
        opening of this match, in which the first player had the same colour.
        """
        return [pair_of(row) for row in self._rows(PAIRS, match_id=match_id)]

    def decide_match(
        self,
        match_id: int,
        verdict: Verdict,
        *,
        epoch: int,
        statistics: MatchStatistics | None = None,
    ) -> None:
        """Record a verdict; ``promote`` does it for the winner's match. Repeatable.

        Raises:
            StaleEpochError: another evaluator has taken over, or decided otherwise.
        """
        with self._transaction() as connection:
            write_verdict(connection, match_id, verdict, statistics or MatchStatistics(), epoch)
            decided = connection.scalar(
                text("SELECT verdict FROM matches WHERE match_id = :match_id"),
                {"match_id": match_id},
            )
        if decided != verdict:
            raise StaleEpochError(f"match {match_id} was decided otherwise: {decided}")


def match_of(row: Row[Any]) -> MatchRow:
    """Return a match from a row of ``MATCH``."""
    values = dict(row._mapping)  # pyright: ignore[reportPrivateUsage] - SQLAlchemy's public name
    threshold, elo0, elo1, error, draws_only = (
        values.pop(name)
        for name in ("threshold", "sprt_elo0", "sprt_elo1", "sprt_error", "draws_only")
    )
    rule = None
    if threshold is not None:
        rule = GateRule(threshold, None if elo0 is None else (elo0, elo1), error, draws_only)
    openings = values.pop("openings")
    return MatchRow(**values, rule=rule, openings=tuple(openings.split("\n") if openings else ()))


def _store_records(
    connection: Connection, run: str, worker: str, records: Sequence[GameRecord]
) -> None:
    """Store games that are not for training, in the caller's transaction.

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
        if status in ("adopted", "conflict", "rejected"):
            raise RecordRejectedError(f"game {game_uid}: {reason}")


@dataclass(frozen=True, slots=True)
class PlayerResult:
    """Results of two players of a run when ``player`` moved first."""

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
    version: int | None  # version of a model; None: an anchor
    elo: float
    elo_error: float  # standard error
    games: int
    at: datetime


class Ratings(ConnectionPool):
    """Reading results between players, writing and reading ratings."""

    def rating_places(self, run: str) -> set[RatingPlace]:
        """Return the places of the rating pool with a game."""
        rows = self._rows(
            "SELECT player, opponent, opening, color FROM match_games JOIN matches "
            "USING (match_id) WHERE run = :run AND kind = 'rating'",
            run=run,
        )
        return {(row.player, row.opponent, row.opening, row.color) for row in rows}

    def player_results(self, run: str) -> list[PlayerResult]:
        """Return all games between two players, of every kind of match, as input for ratings.

        A game that two deterministic players repeated, move by move, is counted once. Games of a
        model in a named precision are left out, because they reveal nothing about the version.
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
        """Return the ratings of a run: its models, the oldest first, then anchors by name."""
        rows = self._rows(
            "SELECT run, player, version, elo, elo_error, games, at FROM ratings "
            "WHERE run = :run ORDER BY version NULLS LAST, player",
            run=run,
        )
        return [RatingRow(*row) for row in rows]
