CREATE TABLE promotions (
    run text NOT NULL REFERENCES runs,
    seq bigint NOT NULL CHECK (seq > 0),
    prev_seq bigint CHECK (seq = prev_seq + 1),
    version integer NOT NULL,
    match_id bigint REFERENCES matches,
    actor text NOT NULL,
    epoch bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, seq),
    FOREIGN KEY (run, prev_seq) REFERENCES promotions (run, seq),
    FOREIGN KEY (run, version) REFERENCES models (run, version),
    CHECK ((seq = 1) = (prev_seq IS NULL))
);
CREATE INDEX promotions_version ON promotions (run, version);
