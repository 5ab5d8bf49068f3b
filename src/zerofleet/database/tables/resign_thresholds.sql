CREATE TABLE resign_thresholds (
    threshold_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run text NOT NULL REFERENCES runs,
    at timestamptz NOT NULL DEFAULT now(),
    threshold real CHECK (threshold BETWEEN -1 AND 1),
    games integer NOT NULL CHECK (games >= 0),
    would_resign integer NOT NULL CHECK (would_resign BETWEEN 0 AND games),
    wrong integer NOT NULL CHECK (wrong BETWEEN 0 AND would_resign),
    false_positive_share real NOT NULL,
    min_games integer NOT NULL,
    window_games integer NOT NULL,
    highest real NOT NULL CHECK (highest BETWEEN -1 AND 0),
    began_before timestamptz
);
CREATE INDEX resign_thresholds_newest ON resign_thresholds (run, threshold_id);
COMMENT ON TABLE resign_thresholds IS
    'v_resign over time, a log that only grows: the newest row of a run is what games begin with.';
COMMENT ON COLUMN resign_thresholds.threshold IS
    'The player to move resigns when the root''s value and its best child''s are below this; '
    'null: no player resigns.';
COMMENT ON COLUMN resign_thresholds.games IS 'Games played on that it was computed from.';
COMMENT ON COLUMN resign_thresholds.would_resign IS 'Of these, the ones that it would have ended.';
COMMENT ON COLUMN resign_thresholds.wrong IS 'Of these, the ones that the resigning player did not lose.';
COMMENT ON COLUMN resign_thresholds.false_positive_share IS
    'What was asked for: (wrong + 1) / (would_resign + 1) is at most this.';
COMMENT ON COLUMN resign_thresholds.min_games IS 'What was asked for: with fewer games there is none.';
COMMENT ON COLUMN resign_thresholds.window_games IS 'What was asked for: games looked at, at most.';
COMMENT ON COLUMN resign_thresholds.highest IS
    'What was asked for: no threshold is above this, whatever the games say.';
COMMENT ON COLUMN resign_thresholds.began_before IS
    'Games that began later were left out: others that began with them may still be in play.';
