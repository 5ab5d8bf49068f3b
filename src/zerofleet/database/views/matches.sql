CREATE VIEW match_history AS
SELECT
    m.match_id, m.run, m.kind, m.player, m.opponent, m.num_simulations, m.rated, m.test,
    m.games AS most_games, s.games, s.wins, s.draws, s.losses, m.games_counted, m.duplicates, m.pentanomial,
    round(100.0 * coalesce(m.score, s.score)::numeric, 1) AS score_percent,
    round(100.0 * m.threshold::numeric, 1) AS threshold_percent,
    round(m.llr::numeric, 3) AS llr,
    round(ln((1 - m.sprt_error) / m.sprt_error)::numeric, 3) AS llr_bound,
    m.verdict, m.decided_by, m.created_at, m.decided_at
FROM matches AS m
CROSS JOIN LATERAL (
    SELECT
        count(*) AS games,
        count(*) FILTER (WHERE score = 1) AS wins,
        count(*) FILTER (WHERE score = 0.5) AS draws,
        count(*) FILTER (WHERE score = 0) AS losses,
        CASE WHEN m.kind <> 'gate' THEN avg(score) END AS score
    FROM match_games AS g WHERE g.match_id = m.match_id
) AS s;
COMMENT ON VIEW match_history IS
    'Each match with its games and, for a gate, the counted games, the verdict and its figures. Wins and '
    'score belong to player. A sequential test promotes at llr_bound and rejects at its negative.';
