CREATE VIEW training_curve AS
SELECT
    run,
    step,
    coalesce(t.at, h.at) AS at,
    coalesce(t.samples, h.samples) AS samples,
    coalesce(t.learning_rate, h.learning_rate) AS learning_rate,
    t.policy_loss AS train_policy_loss,
    h.policy_loss AS held_out_policy_loss,
    t.value_loss AS train_value_loss,
    h.value_loss AS held_out_value_loss,
    t.search_kl AS train_search_kl,
    h.search_kl AS held_out_search_kl,
    t.explained_variance AS train_explained_variance,
    h.explained_variance AS held_out_explained_variance,
    coalesce(h.policy_gap, t.policy_gap) AS policy_gap,
    coalesce(h.value_gap, t.value_gap) AS value_gap,
    coalesce(h.overfit, t.overfit) AS overfit,
    t.gradient_norm,
    t.soft_policy_loss,
    t.opponent_policy_loss,
    t.final_planes_loss,
    t.final_score_loss,
    t.own_losses,
    t.distinct_share,
    t.age_games,
    t.window_positions,
    t.window_limit,
    t.samples_per_position,
    t.policy_entropy AS train_policy_entropy,
    h.policy_entropy AS held_out_policy_entropy,
    t.target_entropy AS train_target_entropy,
    h.target_entropy AS held_out_target_entropy,
    t.policy_agreement AS train_policy_agreement,
    h.policy_agreement AS held_out_policy_agreement,
    t.value_bias AS train_value_bias,
    h.value_bias AS held_out_value_bias
FROM (SELECT * FROM train_metrics WHERE split = 'train') AS t
FULL JOIN (SELECT * FROM train_metrics WHERE split = 'held_out') AS h USING (run, step);
COMMENT ON VIEW training_curve IS
    'Is it learning, is it overfitting: training and validation figures side by side, step by step. '
    'policy_gap and value_gap are the smoothed gaps that the overfit watch uses.';

CREATE VIEW recent_play AS
SELECT
    r.name AS run,
    g.games,
    g.distinct_game_share,
    g.drawn_game_share,
    newest.policy_entropy,
    newest.target_entropy,
    oldest.policy_entropy AS first_policy_entropy
FROM runs AS r
CROSS JOIN LATERAL (
    SELECT
        count(*) AS games,
        count(DISTINCT moves)::float8 / nullif(count(*), 0) AS distinct_game_share,
        avg((result = 0)::integer)::float8 AS drawn_game_share
    FROM (
        SELECT moves, result FROM games WHERE run = r.name AND kind = 'selfplay'
        ORDER BY tx DESC LIMIT 1000
    ) AS last_games
) AS g
LEFT JOIN LATERAL (
    SELECT policy_entropy, target_entropy FROM train_metrics
    WHERE run = r.name AND split = 'train' ORDER BY step DESC LIMIT 1
) AS newest ON true
LEFT JOIN LATERAL (
    SELECT policy_entropy FROM train_metrics
    WHERE run = r.name AND split = 'train' ORDER BY step LIMIT 1
) AS oldest ON true;
COMMENT ON VIEW recent_play IS
    'Does self-play still explore: distinct games and draws among the last 1,000 of each run, and the '
    'entropies of the network''s and of the search''s policy, in nats, as last measured.';

CREATE VIEW training_warnings AS
SELECT run, warning, detail, step, at
FROM (
    SELECT DISTINCT ON (run, split_part(event, '_', 1))
        run, split_part(event, '_', 1) || 's' AS warning, event, detail, step, at
    FROM train_events
    ORDER BY run, split_part(event, '_', 1), event_id DESC
) AS newest
WHERE event IN ('narrow_begins', 'overfit_begins')
UNION ALL
SELECT run, 'over the disk limit', limit_warning, NULL, limit_warned_at
FROM position_needs WHERE limit_warning IS NOT NULL;
COMMENT ON VIEW training_warnings IS
    'Problems of a run''s training: it narrows or overfits, according to the last event, or it uses more '
    'disk than [retention] max_disk_gb. detail has the figures of the moment when that began.';

CREATE VIEW value_by_stage AS
SELECT
    m.run,
    m.step,
    m.split,
    c.stage,
    c.positions,
    round(c.predicted, 4) AS predicted,
    round(c.actual, 4) AS actual,
    round(c.squared_error, 4) AS squared_error
FROM train_metrics AS m
CROSS JOIN LATERAL jsonb_to_recordset(m.calibration) AS c (
    stage integer, positions integer, predicted numeric, actual numeric, squared_error numeric
);
COMMENT ON VIEW value_by_stage IS
    'The network''s value against the result, for the player to move, by quarter of the game. '
    'Overfitting shows first as too much confidence in early quarters.';
