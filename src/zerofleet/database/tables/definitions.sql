CREATE TABLE definitions (
    digest text NOT NULL,
    version text NOT NULL,
    views text[] NOT NULL,
    functions text[] NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX definitions_one_row ON definitions ((true));
COMMENT ON TABLE definitions IS
    'Which version of our functions, views and rights stands in this database: one row, written by '
    '`zerofleet migrate`. The version of the tables is in alembic_version.';
COMMENT ON COLUMN definitions.digest IS 'Of the files that they were made from.';
COMMENT ON COLUMN definitions.version IS
    'Of the zerofleet that made them. An older one leaves them alone.';
COMMENT ON COLUMN definitions.views IS 'The next migration drops these and makes its own.';
COMMENT ON COLUMN definitions.functions IS
    'The next migration drops these and makes its own; functions of triggers are replaced instead.';
