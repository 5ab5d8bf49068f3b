"""One look at a run: what ``zerofleet status`` shows."""

from __future__ import annotations

from dataclasses import dataclass

from zerofleet.database.connection import ConnectionPool

_SUMMARY = """
SELECT
    g.games, g.positions, g.games_last_hour, g.workers_last_hour, g.resigned_games,
    (
        SELECT threshold FROM resign_thresholds WHERE run = :run
        ORDER BY threshold_id DESC LIMIT 1
    ) AS resign_threshold,
    (SELECT count(*) FROM rejected_games WHERE run = :run) AS rejected_games,
    (SELECT count(*) FROM unfinished_games WHERE run = :run) AS unfinished_games,
    (SELECT count(*) FROM models WHERE run = :run) AS models,
    (SELECT max(version) FROM models WHERE run = :run) AS newest_model,
    h.promotions, h.best_model,
    (
        SELECT string_agg(precision || ': ' || reason, '; ' ORDER BY precision)
        FROM model_variants WHERE run = :run AND version = h.best_model AND NOT accepted
    ) AS refused_variants,
    r.version AS rated_model, r.elo, r.elo_error, e.error_rate,
    t.step, t.policy_loss, t.value_loss,
    o.policy_loss AS held_out_policy_loss, o.value_loss AS held_out_value_loss
FROM (
    SELECT
        count(*) AS games, coalesce(sum(length), 0) AS positions,
        count(*) FILTER (WHERE ingested_at > now() - interval '1 hour') AS games_last_hour,
        count(DISTINCT worker) FILTER (WHERE ingested_at > now() - interval '1 hour')
            AS workers_last_hour,
        count(*) FILTER (WHERE reason = 'resign') AS resigned_games
    FROM games WHERE run = :run AND kind = 'selfplay'
) AS g
CROSS JOIN (
    SELECT
        coalesce(max(seq), 0) AS promotions,
        (array_agg(version ORDER BY seq DESC))[1] AS best_model
    FROM promotions WHERE run = :run
) AS h
LEFT JOIN LATERAL (
    SELECT version, elo, elo_error FROM ratings JOIN promotions USING (run, version)
    WHERE run = :run ORDER BY seq DESC LIMIT 1
) AS r ON true
LEFT JOIN LATERAL (
    SELECT error_rate FROM exams
    WHERE run = :run AND version = h.best_model AND kind IN ('lines', 'random')
    ORDER BY exam_id DESC LIMIT 1
) AS e ON true
LEFT JOIN LATERAL (
    SELECT * FROM train_metrics WHERE run = :run AND split = 'train' ORDER BY step DESC LIMIT 1
) AS t ON true
LEFT JOIN LATERAL (
    SELECT * FROM train_metrics WHERE run = :run AND split = 'held_out' ORDER BY step DESC LIMIT 1
) AS o ON true
"""


@dataclass(frozen=True, slots=True)
class Summary:
    """A run in figures; None where nothing was recorded yet."""

    games: int  # of self-play
    positions: int
    games_last_hour: int
    workers_last_hour: int
    resigned_games: int  # of self-play
    resign_threshold: float | None  # v_resign; None too while no player resigns
    rejected_games: int
    unfinished_games: int
    models: int
    newest_model: int | None
    promotions: int
    best_model: int | None
    refused_variants: str | None  # of the best model, and why
    rated_model: int | None  # the newest promoted one that has a rating
    elo: float | None  # of that one
    elo_error: float | None
    error_rate: float | None  # in the best model's last exam
    step: int | None  # of the last measurement
    policy_loss: float | None
    value_loss: float | None
    held_out_policy_loss: float | None
    held_out_value_loss: float | None


class Summaries(ConnectionPool):
    """The overview of a run."""

    def summary(self, run: str) -> Summary:
        """Where a run stands."""
        [row] = self._rows(_SUMMARY, run=run)
        return Summary(*row)
