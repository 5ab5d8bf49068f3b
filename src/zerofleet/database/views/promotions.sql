CREATE VIEW promotion_history AS
SELECT
    p.run,
    p.seq,
    p.version AS model,
    m.step,
    p.at,
    p.actor,
    p.match_id,
    x.opponent_version AS against,
    x.num_simulations,
    s.games,
    s.wins,
    s.draws,
    s.losses,
    round(100.0 * coalesce(x.score, s.score)::numeric, 1) AS score_percent,
    round(100.0 * x.threshold::numeric, 1) AS threshold_percent,
    round(r.elo::numeric) AS elo,
    m.sha256,
    x.decided_by,
    round(x.llr::numeric, 3) AS llr,
    x.games_counted
FROM promotions AS p
JOIN models AS m USING (run, version)
LEFT JOIN matches AS x ON x.match_id = p.match_id
LEFT JOIN LATERAL (
    SELECT
        count(*) AS games,
        count(*) FILTER (WHERE score = 1) AS wins,
        count(*) FILTER (WHERE score = 0.5) AS draws,
        count(*) FILTER (WHERE score = 0) AS losses,
        avg(score) AS score
    FROM match_games AS g WHERE g.match_id = p.match_id
) AS s ON p.match_id IS NOT NULL
LEFT JOIN ratings AS r ON r.run = p.run AND r.version = p.version;
COMMENT ON VIEW promotion_history IS
    'Each promotion with the match that earned it; actor says who promoted, and whether it was a '
    'rollback. The score is the one in match_history, behind the verdict.';
