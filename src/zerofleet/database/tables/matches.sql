CREATE TABLE matches (
    match_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run text NOT NULL REFERENCES runs,
    candidate integer NOT NULL,
    best integer NOT NULL,
    games integer NOT NULL CHECK (games > 0),
    threshold real NOT NULL,
    test text NOT NULL DEFAULT 'fixed' CHECK (test IN ('fixed', 'sprt')),
    sprt_elo0 double precision,
    sprt_elo1 double precision,
    sprt_error double precision CHECK (sprt_error > 0 AND sprt_error < 0.5),
    draws_only text CHECK (draws_only IN ('promote', 'reject')),
    num_simulations integer NOT NULL,
    seed bigint NOT NULL,
    epoch bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    verdict text CHECK (verdict IN ('promoted', 'rejected', 'skipped')),
    decided_by text,
    decided_at timestamptz,
    candidate_score real,
    llr double precision,
    games_counted integer,
    duplicates integer,
    pentanomial integer[],
    FOREIGN KEY (run, candidate) REFERENCES models (run, version),
    FOREIGN KEY (run, best) REFERENCES models (run, version),
    CHECK ((verdict IS NULL) = (decided_at IS NULL)),
    CHECK (
        num_nonnulls(sprt_elo0, sprt_elo1, sprt_error) = CASE test WHEN 'sprt' THEN 3 ELSE 0 END
    ),
    CHECK (sprt_elo0 < sprt_elo1)
);
CREATE UNIQUE INDEX matches_undecided ON matches (run, candidate, best) WHERE verdict IS NULL;
COMMENT ON TABLE matches IS
    'A candidate against the best model of its time. The verdict follows from match_games alone.';
COMMENT ON COLUMN matches.games IS 'Games that the match has when it is over; sprt: the most it has.';
COMMENT ON COLUMN matches.threshold IS 'The candidate is promoted when its score is above this.';
COMMENT ON COLUMN matches.epoch IS 'Fence of the evaluator that last wrote the row.';
COMMENT ON COLUMN matches.seed IS 'Of the openings and the search.';
COMMENT ON COLUMN matches.verdict IS 'promoted, rejected, or skipped: a later candidate was judged instead.';
COMMENT ON COLUMN matches.candidate_score IS 'Mean score of the candidate over the counted games.';
COMMENT ON COLUMN matches.test IS
    'fixed: all games, then the threshold. sprt: a sequential test on pairs that may end it earlier.';
COMMENT ON COLUMN matches.sprt_elo0 IS 'Logistic Elo of the candidate over the best: to be rejected.';
COMMENT ON COLUMN matches.sprt_elo1 IS 'Logistic Elo of the candidate over the best: to be promoted.';
COMMENT ON COLUMN matches.sprt_error IS 'Probability of either wrong verdict of the sequential test.';
COMMENT ON COLUMN matches.draws_only IS
    'Verdict if every counted game was drawn; null: the threshold decides that too.';
COMMENT ON COLUMN matches.decided_by IS
    'sprt, threshold, draws_only; unusable: a model did not answer; newer_candidate, other_best '
    '(it plays another best model today), other_openings (today''s run file has not enough of them).';
COMMENT ON COLUMN matches.llr IS
    'Log-likelihood ratio of sprt_elo1 against sprt_elo0 when it was decided.';
COMMENT ON COLUMN matches.games_counted IS
    'Games that the verdict rests on: those of the complete pairs from the first opening on, up to '
    'where a sequential test ended, without duplicates.';
COMMENT ON COLUMN matches.duplicates IS
    'Games left out: in each such pair both repeat, move by move, a game of an earlier pair in which '
    'the candidate had the same colour.';
COMMENT ON COLUMN matches.pentanomial IS
    'Counted pairs in which the candidate took 0, 0.5, 1, 1.5 and 2 points.';

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

CREATE TABLE rating_games (
    run text NOT NULL REFERENCES runs,
    first_player text NOT NULL,
    second_player text NOT NULL,
    opening integer NOT NULL CHECK (opening >= 0),
    game_uid uuid NOT NULL UNIQUE REFERENCES games,
    remark text,
    epoch bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, first_player, second_player, opening),
    CHECK (first_player <> second_player)
);
COMMENT ON TABLE rating_games IS
    'Games that only rate: a promoted model against earlier ones and against fixed anchors, each '
    'opening once with either side moving first. A player is a model''s version (12), or an '
    'anchor: random, search (no network), gnugo:LEVEL. Anchors'' plies have model version 0.';
COMMENT ON COLUMN rating_games.opening IS 'Which of the pairing''s seeded openings it began with.';
COMMENT ON COLUMN rating_games.remark IS
    'Why a program from outside lost before the rules ended the game; null in all other games.';
COMMENT ON COLUMN rating_games.epoch IS 'Fence of the evaluator that wrote the row.';

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
