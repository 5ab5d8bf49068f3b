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
COMMENT ON TABLE ratings IS
    'Strength of each model and anchor, from all games of matches between two of them; replaced as '
    'games come in. The oldest model that played is held at 0 Elo.';
COMMENT ON COLUMN ratings.player IS 'As in matches; no precision is a player of its own.';
COMMENT ON COLUMN ratings.version IS 'Of a player that is a model.';
COMMENT ON COLUMN ratings.elo_error IS 'Standard error; 1.96 times it is half of the 95 % interval.';

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
COMMENT ON TABLE exams IS
    'How often a model erred where perfect play is known, and how its games against GNU Go ended.';
COMMENT ON COLUMN exams.kind IS
    'Positions: lines of play (tic-tac-toe), of random play, or near good play. Whole games: as first '
    'or second player against the solver, which plays evenly among its best actions or resists '
    'longest, or against a level of GNU Go.';
COMMENT ON COLUMN exams.positions IS 'Positions or games.';
COMMENT ON COLUMN exams.errors IS
    'Positions in which its action gave away a better outcome; games that ended worse than by perfect '
    'play, or that GNU Go won.';
COMMENT ON COLUMN exams.prior_errors IS
    'The same of positions by the network''s prior alone; null: not asked.';
COMMENT ON COLUMN exams.wins IS 'Of whole games; null: these are positions.';
COMMENT ON COLUMN exams.draws IS 'Of whole games; null: these are positions.';
COMMENT ON COLUMN exams.given_away IS
    'Of games against the solver: actions that let go of a better outcome.';
COMMENT ON COLUMN exams.margin IS
    'Of games against GNU Go: mean of the model''s area less the other''s, without komi.';
COMMENT ON COLUMN exams.even_komi IS
    'Of games against GNU Go: the points that the model would need in place of the komi to win half.';
COMMENT ON COLUMN exams.wrong_answers IS
    'The first hundred positions with an error, in the game''s notation: moves that lead there, what '
    'was played, and what was right (all actions that keep the outcome); null: not kept.';
COMMENT ON COLUMN exams.value_error IS
    'Mean square of the searched value less the outcome of perfect play; null: not known.';
