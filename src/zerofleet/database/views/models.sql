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
    w.games,
    w.wins,
    w.draws,
    w.losses,
    round(100 * w.score::numeric, 1) AS score_percent,
    round(100 * w.low::numeric, 1) AS low_percent,
    round(100 * w.high::numeric, 1) AS high_percent,
    w.accepted AS match_accepted,
    v.created_at
FROM model_variants AS v
JOIN models AS m USING (run, version)
LEFT JOIN variant_verdicts AS w USING (run, version, precision);
COMMENT ON VIEW variant_history IS
    'Each variant with its distance from fp32, why it was refused, and the match it played, if one.';
