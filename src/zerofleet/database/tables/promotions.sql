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
COMMENT ON TABLE promotions IS
    'Which model was best, when and why: a chain that only grows. Two writers that saw the same end '
    'collide on seq, so one of them wins. The pointer in Redis is a copy of the end of this chain.';
COMMENT ON COLUMN promotions.prev_seq IS 'The end of the chain that the writer saw; null for the first.';
COMMENT ON COLUMN promotions.match_id IS 'The match that decided it; null where none was played.';
COMMENT ON COLUMN promotions.actor IS 'Who wrote it: an evaluator, or a person.';
