ALTER TABLE train_metrics
    ADD COLUMN policy_error real,
    ADD COLUMN value_error real,
    ADD COLUMN search_kl real,
    ADD COLUMN explained_variance real,
    ADD COLUMN value_bias real,
    ADD COLUMN distinct_share real,
    ADD COLUMN age_games real,
    ADD COLUMN gradient_norm real,
    ADD COLUMN window_limit bigint,
    ADD COLUMN policy_gap real,
    ADD COLUMN value_gap real,
    ADD COLUMN overfit boolean,
    ADD COLUMN calibration jsonb;
COMMENT ON COLUMN train_metrics.policy_error IS
    'Standard error of policy_loss, positions of one game counted as one; null: of one game only.';
COMMENT ON COLUMN train_metrics.value_error IS
    'Standard error of value_loss, positions of one game counted as one; null: of one game only.';
COMMENT ON COLUMN train_metrics.search_kl IS
    'KL(search || network) in nats: policy_loss above its least.';
COMMENT ON COLUMN train_metrics.explained_variance IS
    '1 - value_loss / variance of the results: 1 is perfect, 0 no better than their mean; null where '
    'all results were the same.';
COMMENT ON COLUMN train_metrics.value_bias IS
    'Mean of value - result: above 0, the network is too hopeful for the player to move.';
COMMENT ON COLUMN train_metrics.distinct_share IS
    'Distinct positions among those drawn for this row, as they were played, without symmetries.';
COMMENT ON COLUMN train_metrics.age_games IS
    'Mean age of the positions drawn: games that have joined this split since theirs.';
COMMENT ON COLUMN train_metrics.gradient_norm IS
    'Euclidean norm of the last step''s gradient of both losses, without the weights'' penalty.';
COMMENT ON COLUMN train_metrics.window_limit IS
    'Most positions that the window might hold then, as far as it had grown.';
COMMENT ON COLUMN train_metrics.policy_gap IS
    'Held-out policy_loss above the training one, smoothed; null: too few held-out games to tell.';
COMMENT ON COLUMN train_metrics.value_gap IS
    'Held-out value_loss above the training one, smoothed; null: too few held-out games to tell.';
COMMENT ON COLUMN train_metrics.overfit IS
    'Whether the overfit watch held training back then, or would have with [overfit] action = "off".';
COMMENT ON COLUMN train_metrics.calibration IS
    'By quarter of the game (stage 1 to 4): positions, mean value predicted, mean actual result, mean '
    'squared error, for the player to move. See value_by_stage.';

CREATE TABLE train_events (
    event_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run text NOT NULL REFERENCES runs,
    step bigint NOT NULL CHECK (step >= 0),
    event text NOT NULL,
    detail text NOT NULL,
    epoch bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (run, step, event)
);
COMMENT ON TABLE train_events IS
    'What happened to the training of a run, a log that only grows. A resumed trainer that repeats a '
    'step finds its event written.';
COMMENT ON COLUMN train_events.step IS 'SGD steps taken when it happened.';
COMMENT ON COLUMN train_events.event IS 'overfit_begins or overfit_ends.';
COMMENT ON COLUMN train_events.detail IS 'With figures, for people.';
COMMENT ON COLUMN train_events.epoch IS 'Fence of the trainer that wrote the row.';

CREATE TRIGGER fenced BEFORE INSERT ON train_events
    FOR EACH ROW EXECUTE FUNCTION check_fence('trainer');
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON train_events
    FOR EACH STATEMENT EXECUTE FUNCTION forbid_rewriting();

GRANT SELECT ON train_events TO zerofleet_trainer, zerofleet_evaluator, zerofleet_console;
GRANT INSERT ON train_events TO zerofleet_trainer;

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
    t.distinct_share,
    t.age_games,
    t.window_positions,
    t.window_limit,
    t.samples_per_position
FROM (SELECT * FROM train_metrics WHERE split = 'train') AS t
FULL JOIN (SELECT * FROM train_metrics WHERE split = 'held_out') AS h USING (run, step);
COMMENT ON VIEW training_curve IS
    'Is it learning, is it overfitting: training and held-out figures side by side, step by step. '
    'policy_gap and value_gap are the smoothed distances that the overfit watch looks at.';

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
    'The network''s value against how the game ended, for the player to move, by quarter of the game: '
    'an early quarter that is too sure of itself is where overfitting shows first.';

GRANT SELECT ON training_curve, value_by_stage TO zerofleet_console;
