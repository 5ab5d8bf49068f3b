CREATE TABLE runs (
    name text PRIMARY KEY,
    game text NOT NULL,
    config jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE runs IS 'A training run: everything else belongs to one.';
COMMENT ON COLUMN runs.config IS 'The run file as it was last registered.';

CREATE TABLE fences (
    run text NOT NULL REFERENCES runs,
    role text NOT NULL CHECK (role IN ('trainer', 'evaluator')),
    epoch bigint NOT NULL CHECK (epoch > 0),
    acquired_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, role)
);
COMMENT ON TABLE fences IS
    'Who may write: the holder of the newest epoch. Rows that carry an older one are refused.';
