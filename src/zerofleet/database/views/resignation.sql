CREATE VIEW resign_history AS
SELECT
    run,
    at AS since,
    threshold,
    games,
    would_resign,
    wrong,
    round(100.0 * wrong / nullif(would_resign, 0), 2) AS wrong_percent,
    round(100.0 * false_positive_share::numeric, 2) AS allowed_percent,
    began_before
FROM (
    SELECT *, lag(threshold_id) OVER series IS NULL
        OR threshold IS DISTINCT FROM lag(threshold) OVER series AS is_change
    FROM resign_thresholds
    WINDOW series AS (PARTITION BY run ORDER BY threshold_id)
) AS t
WHERE is_change;
COMMENT ON VIEW resign_history IS
    'Each change of v_resign with the games played on that it follows from.';

CREATE VIEW resign_audit AS
WITH audited AS (
    SELECT game_uid, run, result, plays_on FROM games
    WHERE kind = 'selfplay' AND (plays_on OR resign_threshold IS NULL) AND NOT restarted
        AND EXISTS (
            SELECT FROM positions AS p WHERE p.game_uid = games.game_uid AND p.ply = 0
        )
), thresholds (threshold) AS (
    VALUES (-0.99::real), (-0.95), (-0.9), (-0.85), (-0.8), (-0.7), (-0.6), (-0.5)
), resignations AS (
    -- The player who would have resigned first, and the real result for that player.
    SELECT DISTINCT ON (a.game_uid, t.threshold)
        a.run, t.threshold, a.plays_on, a.result * (1 - 2 * p.to_play) AS outcome
    FROM audited AS a
    JOIN positions AS p USING (game_uid)
    JOIN thresholds AS t ON greatest(p.root_value, p.best_child_value) < t.threshold
    WHERE p.ply > 0
    ORDER BY a.game_uid, t.threshold, p.ply
), counted AS (
    SELECT
        n.run,
        t.threshold,
        n.games,
        count(*) FILTER (WHERE r.plays_on) AS would_resign,
        count(*) FILTER (WHERE r.plays_on AND r.outcome >= 0) AS wrong,
        n.all_games,
        count(r.outcome) AS all_would_resign,
        count(*) FILTER (WHERE r.outcome >= 0) AS all_wrong
    FROM (
        SELECT run, count(*) FILTER (WHERE plays_on) AS games, count(*) AS all_games
        FROM audited GROUP BY run
    ) AS n
    CROSS JOIN thresholds AS t
    LEFT JOIN resignations AS r ON r.run = n.run AND r.threshold = t.threshold
    GROUP BY n.run, n.games, n.all_games, t.threshold
)
SELECT
    run,
    threshold,
    games,
    would_resign,
    wrong,
    round(100.0 * wrong / nullif(would_resign, 0), 2) AS wrong_percent,
    all_games,
    all_would_resign,
    all_wrong,
    round(100.0 * all_wrong / nullif(all_would_resign, 0), 2) AS all_wrong_percent
FROM counted;
COMMENT ON VIEW resign_audit IS
    'At each threshold: how many of the games played on it would have ended, and in how many of these '
    'that player did not lose. AlphaGo Zero kept the latter under 5 %. all_: includes games from before '
    'there was a threshold. Restarted games, and games whose searches were deleted, are left out.';

CREATE VIEW resign_check AS
SELECT
    g.run,
    g.first_model AS model,
    count(*) AS games,
    count(*) FILTER (WHERE g.reason = 'resign') AS resigned,
    count(k.game_uid) AS played_on,
    count(r.outcome) AS would_resign,
    count(*) FILTER (WHERE r.outcome >= 0) AS wrong,
    round(100.0 * count(*) FILTER (WHERE r.outcome >= 0) / nullif(count(r.outcome), 0), 2)
        AS wrong_percent
FROM games AS g
LEFT JOIN positions AS k ON g.plays_on AND k.game_uid = g.game_uid AND k.ply = 0
LEFT JOIN LATERAL (
    SELECT g.result * (1 - 2 * p.to_play) AS outcome FROM positions AS p
    WHERE p.game_uid = g.game_uid AND p.ply > 0
        AND greatest(p.root_value, p.best_child_value) < g.resign_threshold
    ORDER BY p.ply LIMIT 1
) AS r ON g.plays_on
WHERE g.kind = 'selfplay' AND g.resign_threshold IS NOT NULL
GROUP BY g.run, g.first_model;
COMMENT ON VIEW resign_check IS
    'Test of v_resign, by model. Over the games that began with a v_resign: how many were resigned. Over '
    'the games played on whose searches are kept: how many it would have ended, and in how many of '
    'these that player did not lose. No v_resign was computed from a game that began with it, so this '
    'is a fair test.';
