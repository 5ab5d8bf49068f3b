"""v_resign, the resignation threshold: Postgres computes it from the games that play on.

This module chooses the threshold; ``functions/resign_curve.sql`` offers those to choose from.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from zerofleet.database.connection import ConnectionPool

_COLUMNS = (
    "run, at, threshold, games, would_resign, wrong, false_positive_share, min_games, "
    "window_games, highest, began_before"
)

# A row that says the same as the newest one is not written again; nor is one that has a threshold
# no more only because games are few at present, as after an outage.
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
    would_resign: int  # of these games
    wrong: int  # of these resignations: the player who gives up did not lose
    false_positive_share: float  # asked for, as all below
    min_games: int
    window_games: int
    highest: float
    began_before: datetime | None  # games that began later were left out


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
        """Compute v_resign from the latest games played on, and write it down.

        v_resign is the highest value ``v`` that these games offer with ``(wrong + 1) /
        (would_resign + 1) <= false_positive_share``: AlphaGo Zero's share (Silver et al., Nature
        2017, Methods, "Self-play"), as if the next resignation were wrong, so that a few lucky ones
        open nothing. A game would be resigned at the first ply but ply 0 whose root value and
        best child's are below ``v``; wrongly if the player to move there did not lose.

        The function ``played_on_games`` says which games: the latest ``window_games`` in the order
        of their start, without those of which the short ones alone are finished as yet; of the
        newest model alone, as soon as it has ``min_games`` of them. Until then a new model, whose
        values are bolder than its predecessor's, resigns by a threshold that is not its own:
        ``highest`` bounds what that may cost.

        Args:
            run: name of the run.
            false_positive_share: in (0, 1).
            min_games: with fewer games there is no threshold.
            window_games: games looked at, at most.
            highest: in [-1, 0); no threshold is above it.

        Returns:
            The run's newest row; the one from before, where nothing has changed.
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
