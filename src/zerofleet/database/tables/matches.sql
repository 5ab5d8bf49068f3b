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
    -- Of a gate alone, from here on.
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
COMMENT ON TABLE matches IS
    'Games between two players of a run. What becomes of them follows from match_games alone.';
COMMENT ON COLUMN matches.kind IS
    'gate: a candidate against the best model of its time, for a verdict. rating: a promoted model '
    'against an earlier one or an anchor; two players have one such match. trial: asked for by a '
    'person, with `zerofleet match`; it decides nothing.';
COMMENT ON COLUMN matches.player IS
    'A model''s version (12), a version in one precision (12/int8), or an anchor: random, search (no '
    'network), gnugo:LEVEL. Of a gate, the candidate.';
COMMENT ON COLUMN matches.opponent IS 'The same; of a gate, the model that was best.';
COMMENT ON COLUMN matches.player_version IS 'Of a player that is a model.';
COMMENT ON COLUMN matches.opponent_version IS 'Of an opponent that is a model.';
COMMENT ON COLUMN matches.games IS 'Games that the match has when it is over; sprt: the most it has.';
COMMENT ON COLUMN matches.seed IS 'Of the openings, and of what random draws.';
COMMENT ON COLUMN matches.epoch IS 'Fence of the evaluator that last wrote the row, or a game of it.';
COMMENT ON COLUMN matches.left_out IS
    'Why no games of a trial are played any more; null: they are. Asked for again, it is tried again.';
COMMENT ON COLUMN matches.threshold IS 'The candidate is promoted when its score is above this.';
COMMENT ON COLUMN matches.test IS
    'fixed: all games, then the threshold. sprt: a sequential test on pairs that may end it earlier.';
COMMENT ON COLUMN matches.sprt_elo0 IS 'Logistic Elo of the candidate over the best: to be rejected.';
COMMENT ON COLUMN matches.sprt_elo1 IS 'Logistic Elo of the candidate over the best: to be promoted.';
COMMENT ON COLUMN matches.sprt_error IS 'Probability of either wrong verdict of the sequential test.';
COMMENT ON COLUMN matches.draws_only IS
    'Verdict if every counted game was drawn; null: the threshold decides that too.';
COMMENT ON COLUMN matches.verdict IS 'promoted, rejected, or skipped: a later candidate was judged instead.';
COMMENT ON COLUMN matches.decided_by IS
    'sprt, threshold, draws_only; unusable: a model did not answer; newer_candidate, other_best '
    '(it plays another best model today), other_openings (today''s run file has not enough of them).';
COMMENT ON COLUMN matches.score IS 'Mean score of the candidate over the counted games.';
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
    color smallint NOT NULL CHECK (color IN (0, 1)),
    game_uid uuid NOT NULL UNIQUE REFERENCES games,
    score real NOT NULL CHECK (score IN (0, 0.5, 1)),
    remark text,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (match_id, opening, color)
);
COMMENT ON TABLE match_games IS
    'Games of a match: each opening once with either colour. Plies of a player that is no model have '
    'model version 0.';
COMMENT ON COLUMN match_games.opening IS 'Which of the match''s seeded openings it began with.';
COMMENT ON COLUMN match_games.color IS
    '0: matches.player is the first player of the game, 1: the second.';
COMMENT ON COLUMN match_games.score IS
    'Of matches.player: 1 won, 0.5 drawn, 0 lost, by the game''s result.';
COMMENT ON COLUMN match_games.remark IS
    'Why a program from outside lost before the rules ended the game; null in all other games.';
