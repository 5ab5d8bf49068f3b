"""What the pages about models ask Postgres; each question looks at a bounded number of rows."""

from __future__ import annotations

PAGE_MODELS = 50
PAGE_MATCHES = 50

_GATE = """
SELECT match_id FROM matches
WHERE run = :run AND player_version = m.version AND kind = 'gate'
ORDER BY match_id DESC LIMIT 1
"""
# Rating games are played by the first promoted model and by every :every-th after it.
_CHAIN = """
chain AS MATERIALIZED (
    SELECT version, row_number() OVER (ORDER BY min(seq)) - 1 AS place
    FROM promotions WHERE run = :run AND :every > 1 GROUP BY version
)
"""
_MODEL_COLUMNS = f"""
SELECT
    m.version, m.sha256, m.step, m.created_at AS published_at, m.removed_at, m.location,
    r.elo, r.low, r.high, r.games AS rated_games,
    p.promoted_at, p.actor, p.is_best, v.variants, h.*,
    coalesce(c.place % :every = 0, :every = 1) AS to_be_rated
FROM shown AS m
LEFT JOIN chain AS c ON c.version = m.version
LEFT JOIN ratings_with_interval AS r ON r.run = :run AND r.player = m.version::text
LEFT JOIN LATERAL (
    SELECT * FROM match_history WHERE match_id = ({_GATE})
) AS h ON true
CROSS JOIN LATERAL (
    SELECT min(at) AS promoted_at, (array_agg(actor ORDER BY seq))[1] AS actor,
        coalesce(max(seq) = (SELECT max(seq) FROM promotions WHERE run = :run), false) AS is_best
    FROM promotions WHERE run = :run AND version = m.version
) AS p
CROSS JOIN LATERAL (
    SELECT array_agg(precision ORDER BY precision) FILTER (WHERE accepted) AS variants
    FROM model_variants WHERE run = :run AND version = m.version
) AS v
ORDER BY m.version DESC
"""
MODELS = f"""
WITH shown AS MATERIALIZED (
    SELECT * FROM models WHERE run = :run AND version < :before
    ORDER BY version DESC LIMIT {PAGE_MODELS + 1}
), {_CHAIN} {_MODEL_COLUMNS}
"""
"""A page of models, newest first, with one more where there are older ones.

``to_be_rated``: whether a model is one of those that play rating games, if it is promoted.
"""

MODEL = f"""
WITH shown AS MATERIALIZED (SELECT * FROM models WHERE run = :run AND version = :version),
{_CHAIN} {_MODEL_COLUMNS}
"""

VARIANTS = """
SELECT precision, accepted, policy_kl, value_difference, reason, games, wins, draws, losses,
    score_percent
FROM variant_history WHERE run = :run AND model = :version ORDER BY precision
"""

EXAMS = """
SELECT kind, num_simulations, positions, errors, error_percent, prior_error_percent, value_error,
    wins, draws, at
FROM exam_results WHERE run = :run AND model = :version ORDER BY at DESC, kind LIMIT 50
"""

LOSSES = """
SELECT t.*
FROM unnest(ARRAY['train', 'held_out']) AS s (split)
CROSS JOIN LATERAL (
    SELECT * FROM train_metrics WHERE run = :run AND split = s.split AND step <= :step
    ORDER BY step DESC LIMIT 1
) AS t
"""
"""The newest measurements at a model's step or before, on games trained on and on held-out ones."""

MATCHES = f"""
SELECT h.* FROM (
    (SELECT match_id FROM matches WHERE run = :run AND player_version = :version
        AND match_id < :before ORDER BY match_id DESC LIMIT {PAGE_MATCHES + 1})
    UNION
    (SELECT match_id FROM matches WHERE run = :run AND opponent_version = :version
        AND match_id < :before ORDER BY match_id DESC LIMIT {PAGE_MATCHES + 1})
    ORDER BY match_id DESC LIMIT {PAGE_MATCHES + 1}
) AS m
JOIN match_history AS h USING (match_id)
ORDER BY h.match_id DESC
"""
"""A page of a model's matches, newest first, with one more where there are older ones."""
