CREATE TABLE train_metrics (
    run text NOT NULL REFERENCES runs,
    step bigint NOT NULL,
    split text NOT NULL CHECK (split IN ('train', 'held_out')),
    policy_loss real NOT NULL,
    value_loss real NOT NULL,
    total_loss real,
    positions integer,
    target_entropy real,
    policy_entropy real,
    policy_agreement real,
    learning_rate real,
    samples bigint,
    window_positions bigint,
    window_games bigint,
    samples_per_position real,
    policy_error real,
    value_error real,
    search_kl real,
    explained_variance real,
    value_bias real,
    distinct_share real,
    age_games real,
    gradient_norm real,
    opponent_policy_loss real,
    final_planes_loss real,
    final_score_loss real,
    window_limit bigint,
    policy_gap real,
    value_gap real,
    overfit boolean,
    calibration jsonb,
    epoch bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, step, split)
);
COMMENT ON TABLE train_metrics IS
    'Losses on the games trained on and on those held out. A resumed trainer repeats the steps after '
    'its checkpoint and replaces their rows.';
COMMENT ON COLUMN train_metrics.run IS 'Of runs.';
COMMENT ON COLUMN train_metrics.step IS 'SGD steps taken when it was measured.';
COMMENT ON COLUMN train_metrics.split IS 'train: games trained on; held_out: games that never are.';
COMMENT ON COLUMN train_metrics.policy_loss IS 'Cross-entropy against the search''s policy, in nats.';
COMMENT ON COLUMN train_metrics.value_loss IS 'Squared error against the game''s result.';
COMMENT ON COLUMN train_metrics.total_loss IS 'What is minimised: both losses and the weights'' penalty.';
COMMENT ON COLUMN train_metrics.positions IS 'Positions that this row is the mean of.';
COMMENT ON COLUMN train_metrics.target_entropy IS 'Of the search''s policy, in nats: the least policy_loss.';
COMMENT ON COLUMN train_metrics.policy_agreement IS 'Share where network and search prefer the same action.';
COMMENT ON COLUMN train_metrics.policy_entropy IS 'Of the network''s policy, in nats.';
COMMENT ON COLUMN train_metrics.learning_rate IS 'Of the step.';
COMMENT ON COLUMN train_metrics.window_positions IS 'Positions in the window, held-out ones left out.';
COMMENT ON COLUMN train_metrics.window_games IS 'Games in the window, held-out ones left out.';
COMMENT ON COLUMN train_metrics.epoch IS 'Fence of the trainer that wrote the row.';
COMMENT ON COLUMN train_metrics.at IS 'When the row was written, by this server''s clock.';
COMMENT ON COLUMN train_metrics.samples IS 'Positions drawn for training since the start of the run.';
COMMENT ON COLUMN train_metrics.samples_per_position IS 'Samples drawn for each position received.';
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
    'Euclidean norm of the last step''s gradient of all losses, without the weights'' penalty.';
COMMENT ON COLUMN train_metrics.opponent_policy_loss IS
    'Of the last step''s batch (the first process'' share of it), in nats; null where the head has no weight, as in the next two.';
COMMENT ON COLUMN train_metrics.final_planes_loss IS 'Likewise, mean over the points, in nats.';
COMMENT ON COLUMN train_metrics.final_score_loss IS
    'Likewise, Huber''s loss of the lead in sides of the board.';
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
COMMENT ON COLUMN train_events.event IS 'overfit_begins, overfit_ends, narrow_begins or narrow_ends.';
COMMENT ON COLUMN train_events.detail IS 'With figures, for people.';
COMMENT ON COLUMN train_events.epoch IS 'Fence of the trainer that wrote the row.';
