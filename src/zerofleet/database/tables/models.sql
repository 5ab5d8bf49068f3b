CREATE TABLE models (
    run text NOT NULL REFERENCES runs,
    version integer NOT NULL CHECK (version > 0),
    sha256 text NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    step bigint NOT NULL CHECK (step >= 0),
    metrics jsonb NOT NULL,
    location text NOT NULL,
    epoch bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    removed_at timestamptz,
    PRIMARY KEY (run, version),
    UNIQUE (run, sha256)
);

CREATE TABLE model_variants (
    run text NOT NULL,
    version integer NOT NULL,
    precision text NOT NULL CHECK (precision IN ('int8', 'fp16')),
    sha256 text CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    location text,
    policy_kl real,
    value_difference real,
    accepted boolean NOT NULL,
    reason text NOT NULL,
    epoch bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, version, precision),
    UNIQUE (run, sha256),
    FOREIGN KEY (run, version) REFERENCES models (run, version),
    CHECK (accepted = (reason = '')),
    CHECK (num_nonnulls(sha256, location) = CASE WHEN accepted THEN 2 ELSE 0 END),
    CHECK (num_nonnulls(policy_kl, value_difference) = 2 OR NOT accepted)
);
