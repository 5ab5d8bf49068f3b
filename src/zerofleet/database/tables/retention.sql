-- Which searches are kept. All tables are small; the functions that use them are in
-- functions/retention.sql.

CREATE TABLE position_partitions (
    partition name PRIMARY KEY,
    since timestamptz NOT NULL UNIQUE,
    until timestamptz NOT NULL UNIQUE CHECK (until > since)
);
COMMENT ON TABLE position_partitions IS
    'The partitions of positions: each holds the searches of games that began in a stretch of time, '
    'and is dropped as a whole. What falls in none of them is in positions_default.';
COMMENT ON COLUMN position_partitions.since IS
    'Games that began at this time or later, by their uid, which follows this server''s clock.';
COMMENT ON COLUMN position_partitions.until IS 'And before this.';

CREATE TABLE partition_tries (at timestamptz NOT NULL);
CREATE UNIQUE INDEX partition_tries_one_row ON partition_tries ((true));
COMMENT ON TABLE partition_tries IS
    'One row: when make_partitions last ran. A submission leaves it alone for a minute then.';

CREATE TABLE position_needs (
    run text PRIMARY KEY REFERENCES runs,
    since timestamptz NOT NULL,
    epoch bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE position_needs IS
    'From when on each run needs its searches, as its trainer last said. A partition is dropped only '
    'when every run that has games needs nothing of it; a run without a row needs everything.';
COMMENT ON COLUMN position_needs.since IS
    'Searches of games that began and were stored before may go; -infinity: none may, infinity: all may.';
COMMENT ON COLUMN position_needs.epoch IS 'Fence of the trainer that wrote the row.';
COMMENT ON COLUMN position_needs.at IS 'When it was last said: long ago, if the run was abandoned.';
