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
