CREATE TABLE runs (
    name text PRIMARY KEY,
    game text NOT NULL,
    config jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE fences (
    run text NOT NULL REFERENCES runs,
    role text NOT NULL CHECK (role IN ('trainer', 'evaluator')),
    epoch bigint NOT NULL CHECK (epoch > 0),
    acquired_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, role)
);
