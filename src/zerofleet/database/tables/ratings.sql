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
COMMENT ON TABLE ratings IS
    'Strength of each model, from all match and rating games; replaced as games come in. The oldest '
    'model that played is held at 0 Elo.';
COMMENT ON COLUMN ratings.elo_error IS 'Standard error; 1.96 times it is half of the 95 % interval.';

CREATE TABLE anchor_ratings (
    run text NOT NULL REFERENCES runs,
    anchor text NOT NULL,
    elo real NOT NULL,
    elo_error real NOT NULL,
    games integer NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, anchor)
);
COMMENT ON TABLE anchor_ratings IS
    'Strength of fixed opponents on the scale of ratings; replaced as games come in.';
COMMENT ON COLUMN anchor_ratings.anchor IS 'random, search, gnugo:LEVEL.';
COMMENT ON COLUMN anchor_ratings.elo_error IS 'Standard error.';

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
