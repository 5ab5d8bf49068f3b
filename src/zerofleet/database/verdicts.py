"""How a match ends: its verdict and what that rests on, written with it in one statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, text

Verdict = Literal["promoted", "rejected", "skipped"]

# Repeatable: a match that is decided keeps its verdict.
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
        row_number() OVER (PARTITION BY p.color, g.moves ORDER BY p.opening) > 1 AS repeated
    FROM match_games AS p JOIN games AS g USING (game_uid) WHERE match_id = :match_id
)
SELECT opening, max(score) FILTER (WHERE color = 0) AS first,
    max(score) FILTER (WHERE color = 1) AS second, bool_and(repeated) AS repeated
FROM played GROUP BY opening HAVING count(*) = 2 ORDER BY opening
"""
"""The complete pairs of a match, for ``pair_of``."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Both games of one opening, as the first-named player sees them."""

    opening: int
    scores: tuple[float, float]  # as the first player, as the second
    repeated: bool  # both games repeat, move by move, a game of an earlier pair

    @property
    def points(self) -> float:
        """From 0 to 2."""
        return sum(self.scores)


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a verdict rests on; None where no games were counted."""

    decided_by: str | None = None
    score: float | None = None  # of the candidate over the counted games, points per game
    llr: float | None = None
    games_counted: int | None = None
    duplicates: int | None = None  # games left out
    pentanomial: tuple[int, ...] | None = None  # counted pairs by 0, 0.5, 1, 1.5, 2 points


def pair_of(row: Row[Any]) -> Pair:
    """A pair, from a row of ``PAIRS``."""
    return Pair(row.opening, (row.first, row.second), row.repeated)


def write_verdict(
    connection: Connection, match_id: int, verdict: Verdict, grounds: Grounds, epoch: int
) -> None:
    """Decide a match in the caller's transaction; one that is decided stays as it is."""
    parameters: dict[str, Any] = {
        "match_id": match_id,
        "verdict": verdict,
        "epoch": epoch,
        "decided_by": grounds.decided_by,
        "llr": grounds.llr,
        "games_counted": grounds.games_counted,
        "duplicates": grounds.duplicates,
        "pentanomial": None if grounds.pentanomial is None else list(grounds.pentanomial),
        "score": grounds.score,
    }
    connection.execute(text(_DECIDE), parameters)
