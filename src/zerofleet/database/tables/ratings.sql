CREATE TABLE ratings (
    run text NOT NULL REFERENCES runs,
    player text NOT NULL,
    version integer GENERATED ALWAYS AS (substring(player FROM '^[0-9]+$')::integer) STORED,
    elo real NOT NULL,
    elo_error real NOT NULL,
    games integer NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, player),
    FOREIGN KEY (run, version) REFERENCES models (run, version)
);

CREATE TABLE exams (
    exam_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run text NOT NULL,
    version integer NOT NULL,
    kind text NOT NULL CHECK (
        kind ~ '^(lines|random|good|(first|second):(evenly|longest)|gnugo:([1-9]|10))$'
    ),
    num_simulations integer NOT NULL,
    positions integer NOT NULL CHECK (positions > 0),
    errors integer NOT NULL CHECK (errors BETWEEN 0 AND positions),
    error_rate double precision NOT NULL GENERATED ALWAYS AS (errors::float8 / positions) STORED,
    prior_errors integer CHECK (prior_errors BETWEEN 0 AND positions),
    value_error real CHECK (value_error BETWEEN 0 AND 4),
    wins integer CHECK (wins BETWEEN 0 AND positions),
    draws integer CHECK (draws BETWEEN 0 AND positions - wins),
    given_away integer CHECK (given_away >= 0),
    margin real,
    even_komi real,
    wrong_answers jsonb CHECK (jsonb_array_length(wrong_answers) <= 100),
    at timestamptz NOT NULL DEFAULT now(),
    FOREIGN KEY (run, version) REFERENCES models (run, version)
);
CREATE INDEX exams_model ON exams (run, version);
