-- Which searches are kept. All tables are small; the functions that use them are in
-- functions/retention.sql.

CREATE TABLE position_partitions (
    partition name PRIMARY KEY,
    since timestamptz NOT NULL UNIQUE,
    until timestamptz NOT NULL UNIQUE CHECK (until > since)
);

CREATE TABLE partition_tries (at timestamptz NOT NULL);
CREATE UNIQUE INDEX partition_tries_one_row ON partition_tries ((true));

CREATE TABLE position_needs (
    run text PRIMARY KEY REFERENCES runs,
    since timestamptz NOT NULL,
    epoch bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);
