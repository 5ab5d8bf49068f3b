CREATE TABLE definitions (
    digest text NOT NULL,
    version text NOT NULL,
    views text[] NOT NULL,
    functions text[] NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX definitions_one_row ON definitions ((true));
