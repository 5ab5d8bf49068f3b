CREATE TABLE matches (
    match_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run text NOT NULL REFERENCES runs,
    kind text NOT NULL CHECK (kind IN ('gate', 'rating', 'trial')),
    player text NOT NULL,
    opponent text NOT NULL,
    player_version integer GENERATED ALWAYS AS (substring(player FROM '^[0-9]+')::integer) STORED,
    opponent_version integer
        GENERATED ALWAYS AS (substring(opponent FROM '^[0-9]+')::integer) STORED,
    games integer NOT NULL CHECK (games > 0),
    num_simulations integer NOT NULL CHECK (num_simulations > 0),
    seed bigint NOT NULL,
    epoch bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    left_out text,
    -- Only promotion matches have the columns from here on.
    threshold real,
    test text CHECK (test IN ('fixed', 'sprt')),
    sprt_elo0 double precision,
    sprt_elo1 double precision,
    sprt_error double precision CHECK (sprt_error > 0 AND sprt_error < 0.5),
    draws_only text CHECK (draws_only IN ('promote', 'reject')),
    verdict text CHECK (verdict IN ('promoted', 'rejected', 'skipped')),
    decided_by text,
    decided_at timestamptz,
    score real,
    llr double precision,
    games_counted integer,
    duplicates integer,
    pentanomial integer[],
    FOREIGN KEY (run, player_version) REFERENCES models (run, version),
    FOREIGN KEY (run, opponent_version) REFERENCES models (run, version),
    CHECK (player <> opponent),
    CHECK (player ~ '^([1-9][0-9]*(/(fp32|int8|fp16))?|random|search|gnugo:([1-9]|10))$'),
    CHECK (opponent ~ '^([1-9][0-9]*(/(fp32|int8|fp16))?|random|search|gnugo:([1-9]|10))$'),
    CHECK (kind <> 'gate' OR player ~ '^[0-9]+$' AND opponent ~ '^[0-9]+$'),
    CHECK (num_nonnulls(threshold, test) = CASE kind WHEN 'gate' THEN 2 ELSE 0 END),
    CHECK (kind = 'gate' OR num_nonnulls(draws_only, verdict, decided_by, score, llr) = 0),
    CHECK (kind = 'trial' OR left_out IS NULL),
    CHECK ((verdict IS NULL) = (decided_at IS NULL)),
    CHECK (
        num_nonnulls(sprt_elo0, sprt_elo1, sprt_error) = CASE test WHEN 'sprt' THEN 3 ELSE 0 END
    ),
    CHECK (sprt_elo0 < sprt_elo1)
);
CREATE UNIQUE INDEX matches_undecided ON matches (run, player, opponent)
    WHERE kind = 'gate' AND verdict IS NULL;
CREATE UNIQUE INDEX matches_once ON matches (run, kind, player, opponent) WHERE kind <> 'gate';
CREATE INDEX matches_newest ON matches (run, kind, match_id);
CREATE INDEX matches_of_player ON matches (run, player_version, match_id);
CREATE INDEX matches_of_opponent ON matches (run, opponent_version, match_id);

CREATE TABLE match_games (
    match_id bigint NOT NULL REFERENCES matches,
    opening integer NOT NULL CHECK (opening >= 0),
    color smallint NOT NULL CHECK (color IN (0, 1)),
    game_uid uuid NOT NULL UNIQUE REFERENCES games,
    score real NOT NULL CHECK (score IN (0, 0.5, 1)),
    remark text,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (match_id, opening, color)
);
