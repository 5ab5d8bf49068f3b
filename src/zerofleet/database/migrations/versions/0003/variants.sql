CREATE TABLE model_variants (
    run text NOT NULL,
    version integer NOT NULL,
    precision text NOT NULL CHECK (precision IN ('int8', 'fp16')),
    sha256 text CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    location text,
    policy_kl real,
    value_difference real,
    accepted boolean NOT NULL,
    reason text NOT NULL,
    epoch bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, version, precision),
    UNIQUE (run, sha256),
    FOREIGN KEY (run, version) REFERENCES models (run, version),
    CHECK (accepted = (reason = '')),
    CHECK (num_nonnulls(sha256, location) = CASE WHEN accepted THEN 2 ELSE 0 END),
    CHECK (num_nonnulls(policy_kl, value_difference) = 2 OR NOT accepted)
);
COMMENT ON TABLE model_variants IS
    'Models in other precisions than fp32, written with the model''s own row and never changed. A '
    'refused one has no file. Whether a precision is used also depends on variant_verdicts.';
COMMENT ON COLUMN model_variants.precision IS 'int8: quantized, for CPUs; fp16: for GPUs.';
COMMENT ON COLUMN model_variants.sha256 IS 'Of the variant''s file, and its name; null: refused.';
COMMENT ON COLUMN model_variants.location IS 'As in models; null: refused.';
COMMENT ON COLUMN model_variants.policy_kl IS
    'KL(fp32 || variant) of the policy in nats, mean over the positions of the check; null: it could '
    'not be measured.';
COMMENT ON COLUMN model_variants.value_difference IS
    'Absolute difference of the value to fp32, mean over the same; null: it could not be measured.';
COMMENT ON COLUMN model_variants.accepted IS 'Both were within the bounds of the run file.';
COMMENT ON COLUMN model_variants.reason IS 'Why it was refused; empty: it was not.';
COMMENT ON COLUMN model_variants.epoch IS 'Fence of the trainer that wrote the row.';

CREATE TRIGGER fenced BEFORE INSERT ON model_variants
    FOR EACH ROW EXECUTE FUNCTION check_fence('trainer');
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON model_variants
    FOR EACH STATEMENT EXECUTE FUNCTION forbid_rewriting();


CREATE TABLE variant_games (
    run text NOT NULL,
    version integer NOT NULL,
    precision text NOT NULL,
    opening integer NOT NULL CHECK (opening >= 0),
    variant_color smallint NOT NULL CHECK (variant_color IN (0, 1)),
    game_uid uuid NOT NULL UNIQUE REFERENCES games,
    variant_score real NOT NULL CHECK (variant_score IN (0, 0.5, 1)),
    epoch bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, version, precision, opening, variant_color),
    FOREIGN KEY (run, version, precision) REFERENCES model_variants
);
COMMENT ON TABLE variant_games IS
    'Games of a model''s variant against the same model in fp32: each opening once with either '
    'colour. They rate nobody and promote nobody.';
COMMENT ON COLUMN variant_games.variant_color IS '0 the variant is the first player, 1 the second.';
COMMENT ON COLUMN variant_games.variant_score IS '1 won, 0.5 drawn, 0 lost, by the game''s result.';
COMMENT ON COLUMN variant_games.epoch IS 'Fence of the evaluator that wrote the row.';

CREATE TRIGGER fenced BEFORE INSERT ON variant_games
    FOR EACH ROW EXECUTE FUNCTION check_fence('evaluator');


CREATE TABLE variant_verdicts (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run text NOT NULL,
    precision text NOT NULL,
    version integer NOT NULL,
    games integer NOT NULL CHECK (games > 0 AND games = wins + draws + losses),
    wins integer NOT NULL CHECK (wins >= 0),
    draws integer NOT NULL CHECK (draws >= 0),
    losses integer NOT NULL CHECK (losses >= 0),
    score double precision NOT NULL CHECK (score BETWEEN 0 AND 1),
    low double precision NOT NULL CHECK (low <= score),
    high double precision NOT NULL CHECK (high >= score),
    accepted boolean NOT NULL,
    epoch bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (run, precision, version),
    FOREIGN KEY (run, version, precision) REFERENCES model_variants
);
CREATE INDEX variant_verdicts_newest ON variant_verdicts (run, precision, seq);
COMMENT ON TABLE variant_verdicts IS
    'Matches of a variant against fp32 of the same model, a log that only grows: the newest row of a '
    'precision says whether inference may use it, whichever version it was.';
COMMENT ON COLUMN variant_verdicts.games IS 'Of variant_games, those that counted.';
COMMENT ON COLUMN variant_verdicts.wins IS 'By the variant.';
COMMENT ON COLUMN variant_verdicts.losses IS 'Of the variant.';
COMMENT ON COLUMN variant_verdicts.score IS 'Of the variant, points per game: a draw is half a point.';
COMMENT ON COLUMN variant_verdicts.low IS 'Lower end of the 95 % interval of the score.';
COMMENT ON COLUMN variant_verdicts.high IS
    'Upper end of it: below 0.5, the variant is weaker than fp32, and refused.';
COMMENT ON COLUMN variant_verdicts.epoch IS 'Fence of the evaluator that wrote the row.';

CREATE TRIGGER fenced BEFORE INSERT ON variant_verdicts
    FOR EACH ROW EXECUTE FUNCTION check_fence('evaluator');
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON variant_verdicts
    FOR EACH STATEMENT EXECUTE FUNCTION forbid_rewriting();


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

GRANT SELECT ON model_variants, variant_verdicts
    TO zerofleet_worker, zerofleet_trainer, zerofleet_evaluator;
GRANT SELECT ON model_variants, variant_games, variant_verdicts, variant_history
    TO zerofleet_console;
GRANT INSERT ON model_variants TO zerofleet_trainer;
GRANT SELECT, INSERT ON variant_games TO zerofleet_evaluator;
GRANT INSERT ON variant_verdicts TO zerofleet_evaluator;
