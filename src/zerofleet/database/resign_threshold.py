"""v_resign, the resignation threshold, which Postgres computes from the games that play on.

This module chooses the threshold; ``functions/resign_curve.sql`` offers the candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from zerofleet.database.connection import ConnectionPool

_COLUMNS = (
    "run, at, threshold, games, would_resign, wrong, false_positive_share, min_games, "
    "window_games, highest, began_before"
)

# A row that equals the newest one is not written again. Nor is a row that merely lost its threshold
# because too few games came in, as after an outage.
_COMPUTE = f"""
WITH looked_at AS MATERIALIZED (
    SELECT count(*) AS games, min(began_before) AS began_before
    FROM played_on_games(:run, :window_games, :min_games)
), best AS MATERIALIZED (
    SELECT c.* FROM looked_at AS l, resign_curve(:run, :window_games, :min_games) AS c
    WHERE l.games >= :min_games AND c.threshold <= CAST(:highest AS real)
        AND c.wrong + 1 <= CAST(:false_positive_share AS float8) * (c.would_resign + 1)
    ORDER BY c.threshold DESC LIMIT 1
), computed AS MATERIALIZED (
    SELECT
        b.threshold, l.games, coalesce(b.would_resign, 0) AS would_resign,
        coalesce(b.wrong, 0) AS wrong, l.began_before
    FROM looked_at AS l LEFT JOIN best AS b ON true
), newest AS MATERIALIZED (
    SELECT * FROM resign_thresholds WHERE run = :run ORDER BY threshold_id DESC LIMIT 1
), inserted AS (
    INSERT INTO resign_thresholds (
        run, threshold, games, would_resign, wrong, began_before, false_positive_share, min_games,
        window_games, highest
    )
    SELECT
        :run, c.threshold, c.games, c.would_resign, c.wrong, c.began_before,
        :false_positive_share, :min_games, :window_games, :highest
    FROM computed AS c
    WHERE NOT EXISTS (
        SELECT FROM newest AS n WHERE n.threshold IS NOT NULL AND c.games < :min_games
    ) AND NOT EXISTS (
        SELECT FROM newest AS n
        WHERE (n.threshold, n.games, n.would_resign, n.wrong, n.began_before)
            IS NOT DISTINCT FROM
            (c.threshold, c.games, c.would_resign, c.wrong, c.began_before)
            AND n.false_positive_share = CAST(:false_positive_share AS real)
            AND n.highest = CAST(:highest AS real)
            AND (n.min_games, n.window_games) = (:min_games, :window_games)
    )
    RETURNING *
)
SELECT {_COLUMNS} FROM (
    SELECT * FROM newest UNION ALL SELECT * FROM inserted
) AS known
ORDER BY threshold_id DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class ResignRow:
    """A resignation threshold and the games played on that it follows from."""

    run: str
    at: datetime
    threshold: float | None  # v_resign, for the player to move; None: no player resigns
    games: int
    would_resign: int  # among these games
    wrong: int  # among these resignations: the player who would resign did not lose
    false_positive_share: float  # a setting, like the following ones
    min_games: int
    window_games: int
    highest: float
    began_before: datetime | None  # games that began later were left out


class ResignThreshold(ConnectionPool):
    """Reading v_resign, as workers may."""

    def last_v_resign(self, run: str) -> float | None:
        """v_resign as last computed; None while no player resigns."""
        [row] = self._rows("SELECT last_v_resign(:run) AS threshold", run=run)
        return row.threshold


class Resignations(ConnectionPool):
    """Computing v_resign."""

    def compute_v_resign(
        self,
        run: str,
        *,
        false_positive_share: float,
        min_games: int,
        window_games: int,
        highest: float,
    ) -> ResignRow:
        """Compute v_resign from the latest games played on, and store it.

        v_resign is the highest value ``v`` among these games with ``(wrong + 1) / (would_resign +
        1) <= false_positive_share``. That is AlphaGo Zero's share (Silver et al., Nature 2017,
        Methods, "Self-play"), computed as if the next resignation were wrong, so that a few lucky
        ones do not raise the threshold. A game would be resigned at the first ply after ply 0 whose
        root value and best child's value are below ``v``. The resignation is wrong if the player to
        move there did not lose.

        The function ``played_on_games`` chooses the games: the last ``window_games`` by start time,
        excluding start times for which only short games have finished. It uses only the newest
        model's games as soon as there are ``min_games`` of them. Until then a new model, whose
        values are bolder than its predecessor's, uses its predecessor's threshold; ``highest``
        limits the damage.

        Args:
            false_positive_share: in (0, 1).
            min_games: with fewer games there is no threshold.
            window_games: most games to use.
            highest: in [-1, 0); no threshold is above it.

        Returns:
            The run's newest row; the previous one if nothing has changed.
        """
        [row] = self._rows(
            _COMPUTE,
            run=run,
            false_positive_share=false_positive_share,
            min_games=min_games,
            window_games=window_games,
            highest=highest,
        )
        return ResignRow(*row)
