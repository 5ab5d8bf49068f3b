CREATE VIEW variant_history AS
SELECT
    v.run,
    v.version AS model,
    m.step,
    v.precision,
    v.accepted,
    v.policy_kl,
    v.value_difference,
    v.reason,
    t.games,
    t.wins,
    t.draws,
    t.losses,
    t.score_percent,
    v.created_at
FROM model_variants AS v
JOIN models AS m USING (run, version)
LEFT JOIN match_history AS t ON t.run = v.run AND t.kind = 'trial'
    AND t.player = v.version || '/' || v.precision AND t.opponent = v.version || '/fp32';
COMMENT ON VIEW variant_history IS
    'Each variant with its difference from fp32, why it was refused, and its test match against fp32 of '
    'the same model, if there was one.';
