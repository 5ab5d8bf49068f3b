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

CREATE TABLE rejected_games (
    run text NOT NULL,
    game_uid uuid NOT NULL,
    reason text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, game_uid)
);

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
