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
    resign_threshold real,
    plays_on boolean NOT NULL DEFAULT false,
    began_at timestamptz NOT NULL,
    tx xid8 NOT NULL DEFAULT pg_current_xact_id(),
    ingested_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX games_window ON games (run, tx) WHERE kind = 'selfplay';
CREATE INDEX games_ingested ON games (run, ingested_at);
CREATE INDEX games_by_model ON games (run, first_model, ingested_at);
CREATE INDEX games_by_second_model ON games (run, second_model, ingested_at)
    WHERE second_model <> first_model;
CREATE INDEX games_of_matches ON games (run, ingested_at) WHERE kind = 'match';
CREATE INDEX games_played_on_ingested ON games (run, ingested_at)
    WHERE plays_on AND kind = 'selfplay';
CREATE INDEX games_played_on_began ON games (run, began_at) WHERE plays_on AND kind = 'selfplay';
COMMENT ON TABLE games IS 'Finished games, one row each, never changed. Written by submit_games alone.';
COMMENT ON COLUMN games.run IS 'Of runs; submit_games checks it once for each batch.';
COMMENT ON COLUMN games.kind IS 'selfplay: the trainer learns from it; match: the evaluator''s.';
COMMENT ON COLUMN games.first_model IS 'Model that chose the first player''s first action.';
COMMENT ON COLUMN games.second_model IS 'Model that chose the second player''s first action.';
COMMENT ON COLUMN games.result IS '+1 the first player won, -1 the second player did, 0 a draw.';
COMMENT ON COLUMN games.reason IS 'rules, or resign: the player to move gave up and lost.';
COMMENT ON COLUMN games.length IS 'Plies.';
COMMENT ON COLUMN games.started_at IS 'By the worker''s clock: for people, never for logic.';
COMMENT ON COLUMN games.finished_at IS 'By the worker''s clock: for people, never for logic.';
COMMENT ON COLUMN games.moves IS 'The actions in the game''s notation, separated by spaces.';
COMMENT ON COLUMN games.content_sha256 IS 'Of the whole record: two deliveries of one game agree on it.';
COMMENT ON COLUMN games.resign_threshold IS
    'v_resign when the game began, for the player to move; null: there was none, and no player could resign.';
COMMENT ON COLUMN games.plays_on IS
    'Drawn when the game began: no player resigns, so that v_resign can be computed from it.';
COMMENT ON COLUMN games.began_at IS
    'When the game began, by this server''s clock: when it was stored, less the time that it took by '
    'the worker''s. Puts games in the order of their start.';
COMMENT ON COLUMN games.tx IS
    'Transaction that stored it. A reader takes tx < window_end() only: everything below is decided, '
    'so going on from the last tx read skips no late commit.';

CREATE TABLE positions (
    game_uid uuid NOT NULL,
    ply smallint NOT NULL,
    action smallint NOT NULL,
    to_play smallint NOT NULL,
    model_version integer NOT NULL,
    root_value real NOT NULL,
    network_value real NOT NULL,
    best_child_value real NOT NULL,
    simulations integer NOT NULL,
    full_search boolean NOT NULL,
    legal_actions smallint[] NOT NULL,
    visit_counts integer[] NOT NULL,
    priors real[] NOT NULL,
    policy_weights integer[],
    PRIMARY KEY (game_uid, ply)
) PARTITION BY RANGE (game_uid);
CREATE TABLE positions_default PARTITION OF positions DEFAULT;
COMMENT ON TABLE positions IS
    'One row for each ply of each game, with the search that chose the action. Stored in the same '
    'transaction as its game by submit_games, the only writer, so no foreign key checks it again. '
    'Partitioned by when the game began, which its uid says, so that old searches can be forgotten '
    'while games stay: see position_partitions.';
COMMENT ON TABLE positions_default IS
    'Positions that fall in no partition: of games whose uids are no UUIDv7, or of another time.';
COMMENT ON COLUMN positions.ply IS 'Actions played before it: 0 is the position in which the game begins.';
COMMENT ON COLUMN positions.action IS 'What was played.';
COMMENT ON COLUMN positions.to_play IS '0 the first player, 1 the second.';
COMMENT ON COLUMN positions.model_version IS 'Model that searched it.';
COMMENT ON COLUMN positions.root_value IS 'Value after search, in [-1, 1], for the player to move.';
COMMENT ON COLUMN positions.network_value IS 'Value before search, in [-1, 1], for the player to move.';
COMMENT ON COLUMN positions.best_child_value IS
    'Value of the best child, the one that would be played without a temperature, in [-1, 1], for the '
    'player to move here.';
COMMENT ON COLUMN positions.simulations IS 'Visits of the root, with those kept from the tree before.';
COMMENT ON COLUMN positions.full_search IS 'May it become a training target.';
COMMENT ON COLUMN positions.legal_actions IS
    'In ascending order; visit_counts, priors and policy_weights belong to them in order. After a '
    'fast search (full_search is false) only those that were visited.';
COMMENT ON COLUMN positions.visit_counts IS 'Visits of each action in this search.';
COMMENT ON COLUMN positions.priors IS 'The network''s probabilities, without noise.';
COMMENT ON COLUMN positions.policy_weights IS
    'Training target, up to scale, in the order of legal_actions; null: the visit counts are the target.';

CREATE TYPE game_record AS (
    game_uid uuid,
    game text,
    action smallint[],
    to_play smallint[],
    model_version integer[],
    root_value real[],
    network_value real[],
    best_child_value real[],
    simulations integer[],
    full_search boolean[],
    offsets integer[],
    legal_actions smallint[],
    visit_counts integer[],
    priors real[],
    policy_weights integer[],
    result smallint,
    reason text,
    resign_threshold real,
    plays_on boolean,
    next_full_search boolean,
    started_at timestamptz,
    finished_at timestamptz
);
COMMENT ON TYPE game_record IS
    'A game as workers deliver it: the columns of positions, each with the entries of all plies. The '
    'legal actions of ply i, and what belongs to them, are [offsets[i], offsets[i + 1]), counted from 0.';

CREATE TABLE unfinished_games (
    game_uid uuid PRIMARY KEY,
    run text NOT NULL REFERENCES runs,
    epoch integer NOT NULL CHECK (epoch >= 0),
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
COMMENT ON COLUMN unfinished_games.record IS
    'A game_record as JSON, as it was delivered; save_unfinished has checked it.';

CREATE TABLE rejected_games (
    run text NOT NULL,
    game_uid uuid NOT NULL,
    reason text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, game_uid)
);
COMMENT ON TABLE rejected_games IS
    'Stored games that are not learned from: the trainer could not read them, or they did not replay.';

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
    'Deliveries that were not stored: another worker had adopted the game, the uid was taken by '
    'another record, or the record contradicts itself. One row for each such record, however often it came. '
    'Unfinished games, without content_sha256, that were refused or that could not go on.';
COMMENT ON COLUMN games_conflict.record IS 'What was delivered.';
