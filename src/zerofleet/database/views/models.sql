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
LEFT JOIN LATERAL (
    SELECT * FROM match_history AS h
    WHERE h.run = v.run AND h.kind = 'trial'
        AND h.player = v.version || '/' || v.precision AND h.opponent = v.version || '/fp32'
    ORDER BY h.rated DESC, h.games DESC, h.match_id DESC LIMIT 1
) AS t ON true;
COMMENT ON VIEW variant_history IS
    'Each variant with its difference from fp32, why it was refused, and its test match against fp32 of '
    'the same model, if there was one. Of several test matches, the one with the most games is shown, '
    'rated ones first.';
