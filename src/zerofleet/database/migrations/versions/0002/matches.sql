ALTER TABLE matches
    ADD COLUMN test text NOT NULL DEFAULT 'fixed' CHECK (test IN ('fixed', 'sprt')),
    ADD COLUMN sprt_elo0 double precision,
    ADD COLUMN sprt_elo1 double precision,
    ADD COLUMN sprt_error double precision CHECK (sprt_error > 0 AND sprt_error < 0.5),
    ADD COLUMN draws_only text CHECK (draws_only IN ('promote', 'reject')),
    ADD COLUMN decided_by text,
    ADD COLUMN llr double precision,
    ADD COLUMN games_counted integer,
    ADD COLUMN duplicates integer,
    ADD COLUMN pentanomial integer[],
    ADD CHECK (
        num_nonnulls(sprt_elo0, sprt_elo1, sprt_error) = CASE test WHEN 'sprt' THEN 3 ELSE 0 END
    ),
    ADD CHECK (sprt_elo0 < sprt_elo1);
COMMENT ON COLUMN matches.games IS 'Games that the match has when it is over; sprt: the most it has.';
COMMENT ON COLUMN matches.test IS
    'fixed: all games, then the threshold. sprt: a sequential test on pairs that may end it earlier.';
COMMENT ON COLUMN matches.sprt_elo0 IS 'Logistic Elo of the candidate over the best: to be rejected.';
COMMENT ON COLUMN matches.sprt_elo1 IS 'Logistic Elo of the candidate over the best: to be promoted.';
COMMENT ON COLUMN matches.sprt_error IS 'Probability of either wrong verdict of the sequential test.';
COMMENT ON COLUMN matches.draws_only IS
    'Verdict if every counted game was drawn; null (before 0002): the threshold decides that too.';
COMMENT ON COLUMN matches.decided_by IS
    'sprt, threshold, draws_only; unusable: a model did not answer; newer_candidate, other_best '
    '(it plays another best model today), other_openings (today''s run file has not enough of them). '
    'Null before 0002.';
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
COMMENT ON COLUMN matches.candidate_score IS 'Mean score of the candidate over the counted games.';

GRANT UPDATE (decided_by, llr, games_counted, duplicates, pentanomial) ON matches
    TO zerofleet_evaluator;


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

CREATE TRIGGER fenced BEFORE INSERT ON rating_games
    FOR EACH ROW EXECUTE FUNCTION check_fence('evaluator');

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

COMMENT ON TABLE ratings IS
    'Strength of each model, from all match and rating games; replaced as games come in. The oldest '
    'model that played is held at 0 Elo.';

GRANT SELECT ON rating_games, anchor_ratings TO zerofleet_console;
GRANT SELECT, INSERT ON rating_games, anchor_ratings TO zerofleet_evaluator;
GRANT UPDATE (elo, elo_error, games, at) ON anchor_ratings TO zerofleet_evaluator;


CREATE VIEW rated_games AS
WITH played AS (
    SELECT
        m.run, p.game_uid,
        CASE p.candidate_color WHEN 0 THEN m.candidate ELSE m.best END::text AS first_player,
        CASE p.candidate_color WHEN 0 THEN m.best ELSE m.candidate END::text AS second_player,
        'match' AS played_for, p.at
    FROM matches AS m JOIN match_games AS p USING (match_id)
    UNION ALL
    SELECT run, game_uid, first_player, second_player, 'rating', at FROM rating_games
)
SELECT
    p.run, p.game_uid, p.first_player, p.second_player, p.played_for, g.result,
    -- All others play the same position alike, so a game again tells nothing new.
    'random' NOT IN (p.first_player, p.second_player)
    AND row_number() OVER (
        PARTITION BY p.run, p.first_player, p.second_player, g.moves ORDER BY p.at, p.game_uid
    ) > 1 AS repeated
FROM played AS p JOIN games AS g USING (game_uid);
COMMENT ON VIEW rated_games IS
    'Every game between two players of a run, for a gate or for a rating. repeated: two players '
    'without chance had this very game before; it does not count twice.';

GRANT SELECT ON rated_games TO zerofleet_evaluator;

CREATE VIEW ratings_with_interval AS
WITH rated AS (
    SELECT run, version::text AS player, version AS model, elo, elo_error, games, at FROM ratings
    UNION ALL
    SELECT run, anchor, NULL, elo, elo_error, games, at FROM anchor_ratings
)
SELECT
    run, player, model,
    round(elo::numeric, 1) AS elo,
    round((elo - 1.959964 * elo_error)::numeric, 1) AS low,
    round((elo + 1.959964 * elo_error)::numeric, 1) AS high,
    games, at
FROM rated;
COMMENT ON VIEW ratings_with_interval IS
    'Elo of models and anchors with its 95 % interval, relative to the oldest model that played.';

CREATE VIEW match_history AS
SELECT
    m.match_id, m.run, m.candidate, m.best, m.test, m.games AS most_games, s.games, s.wins, s.draws,
    s.losses, m.games_counted, m.duplicates, m.pentanomial,
    round(100.0 * m.candidate_score::numeric, 1) AS score_percent,
    round(100.0 * m.threshold::numeric, 1) AS threshold_percent,
    round(m.llr::numeric, 3) AS llr,
    round(ln((1 - m.sprt_error) / m.sprt_error)::numeric, 3) AS llr_bound,
    m.verdict, m.decided_by, m.created_at, m.decided_at
FROM matches AS m
CROSS JOIN LATERAL (
    SELECT
        count(*) AS games,
        count(*) FILTER (WHERE candidate_score = 1) AS wins,
        count(*) FILTER (WHERE candidate_score = 0.5) AS draws,
        count(*) FILTER (WHERE candidate_score = 0) AS losses
    FROM match_games AS g WHERE g.match_id = m.match_id
) AS s;
COMMENT ON VIEW match_history IS
    'Each match with what was played, what counted, the verdict and what it rests on. A sequential '
    'test promotes at llr_bound and rejects at its negative.';

CREATE OR REPLACE VIEW promotion_history AS
SELECT
    p.run,
    p.seq,
    p.version AS model,
    m.step,
    p.at,
    p.actor,
    p.match_id,
    x.best AS against,
    x.num_simulations,
    s.games,
    s.wins,
    s.draws,
    s.losses,
    round(100.0 * s.score, 1) AS score_percent,
    round(100.0 * x.threshold::numeric, 1) AS threshold_percent,
    round(r.elo::numeric) AS elo,
    m.sha256,
    x.decided_by,
    round(x.llr::numeric, 3) AS llr,
    x.games_counted
FROM promotions AS p
JOIN models AS m USING (run, version)
LEFT JOIN matches AS x ON x.match_id = p.match_id
LEFT JOIN LATERAL (
    SELECT
        count(*) AS games,
        count(*) FILTER (WHERE candidate_score = 1) AS wins,
        count(*) FILTER (WHERE candidate_score = 0.5) AS draws,
        count(*) FILTER (WHERE candidate_score = 0) AS losses,
        avg(candidate_score)::numeric AS score
    FROM match_games AS g WHERE g.match_id = p.match_id
) AS s ON p.match_id IS NOT NULL
LEFT JOIN ratings AS r ON r.run = p.run AND r.version = p.version;
COMMENT ON VIEW promotion_history IS
    'Each promotion with the match that earned it; actor says who, and whether it was a rollback.';
