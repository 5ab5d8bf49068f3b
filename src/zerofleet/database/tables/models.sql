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
COMMENT ON TABLE models IS 'Published models. The file was there, and was loaded once, before its row.';
COMMENT ON COLUMN models.sha256 IS 'Of the model file, and its name.';
COMMENT ON COLUMN models.step IS 'SGD steps that the weights have seen.';
COMMENT ON COLUMN models.location IS 'Where the file is, relative to the model folder, or a URL.';
COMMENT ON COLUMN models.epoch IS 'Fence of the trainer that last wrote the row.';
COMMENT ON COLUMN models.removed_at IS
    'From when on its files, with those of its variants, may be gone ([retention]); null: they are '
    'kept.';

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
COMMENT ON TABLE model_variants IS
    'Models in other precisions than fp32, written with the model''s own row and never changed. A '
    'refused one has no file.';
COMMENT ON COLUMN model_variants.precision IS 'int8: quantized, for CPUs; fp16: for GPUs.';
COMMENT ON COLUMN model_variants.sha256 IS 'Of the variant''s file, and its name; null: refused.';
COMMENT ON COLUMN model_variants.location IS 'As in models; null: refused.';
COMMENT ON COLUMN model_variants.policy_kl IS
    'KL(fp32 || variant) of the policy in nats, mean over the positions of the check; null: it could '
    'not be measured.';
COMMENT ON COLUMN model_variants.value_difference IS
    'Absolute difference of the value to fp32, mean over the same; null: it could not be measured.';
COMMENT ON COLUMN model_variants.accepted IS 'Both were within the bounds of the run file.';
COMMENT ON COLUMN model_variants.reason IS 'Why it was refused; empty: it was not.';
COMMENT ON COLUMN model_variants.epoch IS 'Fence of the trainer that wrote the row.';
