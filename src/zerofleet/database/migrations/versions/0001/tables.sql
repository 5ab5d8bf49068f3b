CREATE TABLE runs (
    name text PRIMARY KEY,
    game text NOT NULL,
    config jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE runs IS 'A training run: everything else belongs to one.';
COMMENT ON COLUMN runs.config IS 'The run file as it was last registered.';

CREATE TABLE models (
    run text NOT NULL REFERENCES runs,
    version integer NOT NULL CHECK (version > 0),
    sha256 text NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    step bigint NOT NULL CHECK (step >= 0),
    metrics jsonb NOT NULL,
    location text NOT NULL,
    epoch bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, version),
    UNIQUE (run, sha256)
);
COMMENT ON TABLE models IS 'Published models. The file was there, and was loaded once, before its row.';
COMMENT ON COLUMN models.sha256 IS 'Of the model file, and its name.';
COMMENT ON COLUMN models.step IS 'SGD steps that the weights have seen.';
COMMENT ON COLUMN models.location IS 'Where the file is, relative to the model folder, or a URL.';
COMMENT ON COLUMN models.epoch IS 'Fence of the trainer that wrote the row.';

CREATE TABLE games (
    game_uid uuid PRIMARY KEY,
    run text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('selfplay', 'match')),
    first_model integer NOT NULL,
    second_model integer,
    result smallint NOT NULL CHECK (result BETWEEN -1 AND 1),
    reason text NOT NULL,
    length smallint NOT NULL CHECK (length > 0),
    worker text NOT NULL,
    started_at timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    moves text NOT NULL,
    content_sha256 bytea NOT NULL CHECK (octet_length(content_sha256) = 32),
    tx xid8 NOT NULL DEFAULT pg_current_xact_id(),
    ingested_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX games_window ON games (run, tx) WHERE kind = 'selfplay';
CREATE INDEX games_ingested ON games (run, ingested_at);
COMMENT ON TABLE games IS 'Finished games, one row each, never changed. Written by submit_games alone.';
COMMENT ON COLUMN games.run IS 'Of runs; submit_games checks it once for each batch.';
COMMENT ON COLUMN games.kind IS 'selfplay: the trainer learns from it; match: the evaluator''s.';
COMMENT ON COLUMN games.first_model IS 'Model that chose the first player''s first action.';
COMMENT ON COLUMN games.second_model IS 'Model that chose the second player''s first action.';
COMMENT ON COLUMN games.result IS '+1 the first player won, -1 the second player did, 0 a draw.';
COMMENT ON COLUMN games.reason IS 'What ended the game: rules, or a resignation.';
COMMENT ON COLUMN games.length IS 'Plies.';
COMMENT ON COLUMN games.started_at IS 'By the worker''s clock: for people, never for logic.';
COMMENT ON COLUMN games.finished_at IS 'By the worker''s clock: for people, never for logic.';
COMMENT ON COLUMN games.moves IS 'The actions in the game''s notation, separated by spaces.';
COMMENT ON COLUMN games.content_sha256 IS 'Of the whole record: two deliveries of one game agree on it.';
COMMENT ON COLUMN games.tx IS
    'Transaction that stored it. A reader takes tx < pg_snapshot_xmin(pg_current_snapshot()) only: '
    'everything below is decided, so going on from the last tx read skips no late commit.';

CREATE TABLE positions (
    game_uid uuid NOT NULL,
    ply smallint NOT NULL,
    action smallint NOT NULL,
    to_play smallint NOT NULL,
    model_version integer NOT NULL,
    root_value real NOT NULL,
    network_value real NOT NULL,
    simulations integer NOT NULL,
    full_search boolean NOT NULL,
    actions smallint[] NOT NULL,
    visit_counts integer[] NOT NULL,
    priors real[] NOT NULL,
    PRIMARY KEY (game_uid, ply)
);
COMMENT ON TABLE positions IS
    'One row for each ply of each game, with the search that chose the action. Stored in the same '
    'transaction as its game by submit_games, the only writer, so no foreign key checks it again.';
COMMENT ON COLUMN positions.ply IS 'Actions played before it: 0 is the empty board.';
COMMENT ON COLUMN positions.action IS 'What was played.';
COMMENT ON COLUMN positions.to_play IS '0 the first player, 1 the second.';
COMMENT ON COLUMN positions.model_version IS 'Model that searched it.';
COMMENT ON COLUMN positions.root_value IS 'Value after search, in [-1, 1], for the player to move.';
COMMENT ON COLUMN positions.network_value IS 'Value before search, in [-1, 1], for the player to move.';
COMMENT ON COLUMN positions.simulations IS 'Visits of the root, with those kept from the tree before.';
COMMENT ON COLUMN positions.full_search IS 'May it become a training target.';
COMMENT ON COLUMN positions.actions IS 'Legal actions; visit_counts and priors belong to them in order.';
COMMENT ON COLUMN positions.visit_counts IS 'Visits of each action in this search.';
COMMENT ON COLUMN positions.priors IS 'The network''s probabilities, without noise.';

CREATE TABLE unfinished_games (
    game_uid uuid PRIMARY KEY,
    run text NOT NULL REFERENCES runs,
    epoch integer NOT NULL,
    ply smallint NOT NULL,
    record json NOT NULL,
    worker text NOT NULL,
    lease_until timestamptz NOT NULL,
    saved_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
CREATE INDEX unfinished_games_lease ON unfinished_games (run, lease_until);
COMMENT ON TABLE unfinished_games IS
    'Games in play, saved now and then. When a worker is silent past its lease, another adopts them.';
COMMENT ON COLUMN unfinished_games.epoch IS 'Adoptions so far; a write with an older epoch is refused.';
COMMENT ON COLUMN unfinished_games.ply IS 'Plies played when it was saved.';
COMMENT ON COLUMN unfinished_games.record IS 'The game record as JSON, kept byte for byte.';

CREATE TABLE matches (
    match_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run text NOT NULL REFERENCES runs,
    candidate integer NOT NULL,
    best integer NOT NULL,
    games integer NOT NULL CHECK (games > 0),
    threshold real NOT NULL,
    num_simulations integer NOT NULL,
    seed bigint NOT NULL,
    epoch bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    verdict text CHECK (verdict IN ('promoted', 'rejected', 'skipped')),
    candidate_score real,
    decided_at timestamptz,
    FOREIGN KEY (run, candidate) REFERENCES models (run, version),
    FOREIGN KEY (run, best) REFERENCES models (run, version),
    CHECK ((verdict IS NULL) = (decided_at IS NULL))
);
CREATE UNIQUE INDEX matches_undecided ON matches (run, candidate, best) WHERE verdict IS NULL;
COMMENT ON TABLE matches IS
    'A candidate against the best model of its time. The verdict follows from match_games alone.';
COMMENT ON COLUMN matches.games IS 'Games that the match has when it is over.';
COMMENT ON COLUMN matches.threshold IS 'The candidate is promoted when its score is above this.';
COMMENT ON COLUMN matches.epoch IS 'Fence of the evaluator that last wrote the row.';
COMMENT ON COLUMN matches.seed IS 'Of the openings and the search.';
COMMENT ON COLUMN matches.verdict IS 'promoted, rejected, or skipped: a later candidate was judged instead.';
COMMENT ON COLUMN matches.candidate_score IS 'Mean score of the candidate when it was decided.';

CREATE TABLE match_games (
    match_id bigint NOT NULL REFERENCES matches,
    opening integer NOT NULL CHECK (opening >= 0),
    candidate_color smallint NOT NULL CHECK (candidate_color IN (0, 1)),
    game_uid uuid NOT NULL UNIQUE REFERENCES games,
    candidate_score real NOT NULL CHECK (candidate_score IN (0, 0.5, 1)),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (match_id, opening, candidate_color)
);
COMMENT ON TABLE match_games IS 'Games of a match: each opening once with either colour.';
COMMENT ON COLUMN match_games.candidate_color IS '0 the candidate is the first player, 1 the second.';
COMMENT ON COLUMN match_games.candidate_score IS '1 won, 0.5 drawn, 0 lost, by the game''s result.';

CREATE TABLE promotions (
    run text NOT NULL REFERENCES runs,
    seq bigint NOT NULL CHECK (seq > 0),
    prev_seq bigint CHECK (seq = prev_seq + 1),
    version integer NOT NULL,
    match_id bigint REFERENCES matches,
    actor text NOT NULL,
    epoch bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, seq),
    FOREIGN KEY (run, prev_seq) REFERENCES promotions (run, seq),
    FOREIGN KEY (run, version) REFERENCES models (run, version),
    CHECK ((seq = 1) = (prev_seq IS NULL))
);
COMMENT ON TABLE promotions IS
    'Which model was best, when and why: a chain that only grows. Two writers that saw the same end '
    'collide on seq, so one of them wins. The pointer in Redis is a copy of the end of this chain.';
COMMENT ON COLUMN promotions.prev_seq IS 'The end of the chain that the writer saw; null for the first.';
COMMENT ON COLUMN promotions.match_id IS 'The match that decided it; null where none was played.';
COMMENT ON COLUMN promotions.actor IS 'Who wrote it: an evaluator, or a person.';

CREATE TABLE fences (
    run text NOT NULL REFERENCES runs,
    role text NOT NULL CHECK (role IN ('trainer', 'evaluator')),
    epoch bigint NOT NULL CHECK (epoch > 0),
    acquired_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, role)
);
COMMENT ON TABLE fences IS
    'Who may write: the holder of the newest epoch. Rows that carry an older one are refused.';

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
    epoch bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, step, split)
);
COMMENT ON TABLE train_metrics IS
    'Losses on the games trained on and on those held out. A resumed trainer repeats the steps after '
    'its checkpoint and replaces their rows.';
COMMENT ON COLUMN train_metrics.policy_loss IS 'Cross-entropy against the search''s policy, in nats.';
COMMENT ON COLUMN train_metrics.value_loss IS 'Squared error against the game''s result.';
COMMENT ON COLUMN train_metrics.total_loss IS 'What is minimised: both losses and the weights'' penalty.';
COMMENT ON COLUMN train_metrics.positions IS 'Positions that this row is the mean of.';
COMMENT ON COLUMN train_metrics.target_entropy IS 'Of the search''s policy, in nats: the least policy_loss.';
COMMENT ON COLUMN train_metrics.policy_agreement IS 'Share where network and search prefer the same action.';
COMMENT ON COLUMN train_metrics.policy_entropy IS 'Of the network''s policy, in nats.';
COMMENT ON COLUMN train_metrics.samples IS 'Positions drawn for training since the start of the run.';
COMMENT ON COLUMN train_metrics.samples_per_position IS 'Samples drawn for each position received.';

CREATE TABLE exams (
    exam_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run text NOT NULL,
    version integer NOT NULL,
    num_simulations integer NOT NULL,
    positions integer NOT NULL CHECK (positions > 0),
    errors integer NOT NULL CHECK (errors BETWEEN 0 AND positions),
    error_rate double precision NOT NULL GENERATED ALWAYS AS (errors::float8 / positions) STORED,
    at timestamptz NOT NULL DEFAULT now(),
    FOREIGN KEY (run, version) REFERENCES models (run, version)
);
CREATE INDEX exams_model ON exams (run, version);
COMMENT ON TABLE exams IS 'How often a model erred where perfect play is known.';
COMMENT ON COLUMN exams.errors IS 'Positions in which its action gave away a better outcome.';

CREATE TABLE ratings (
    run text NOT NULL,
    version integer NOT NULL,
    elo real NOT NULL,
    elo_error real NOT NULL,
    games integer NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, version),
    FOREIGN KEY (run, version) REFERENCES models (run, version)
);
COMMENT ON TABLE ratings IS 'Strength of each model, from all match games; replaced as games come in.';
COMMENT ON COLUMN ratings.elo_error IS 'Standard error; 1.96 times it is half of the 95 % interval.';

CREATE TABLE rejected_games (
    run text NOT NULL,
    game_uid uuid NOT NULL,
    reason text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, game_uid)
);
COMMENT ON TABLE rejected_games IS
    'Stored games that are not learned from: they did not replay when the trainer read them.';

CREATE TABLE games_conflict (
    conflict_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    game_uid uuid,
    content_sha256 bytea,
    run text NOT NULL,
    reason text NOT NULL,
    worker text NOT NULL,
    record json NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    UNIQUE NULLS NOT DISTINCT (game_uid, content_sha256)
);
COMMENT ON TABLE games_conflict IS
    'Deliveries that were not stored: the uid was taken by another record, another worker had adopted '
    'the game, or the record contradicts itself. One row for each such record, however often it came.';
COMMENT ON COLUMN games_conflict.record IS 'What was delivered.';
