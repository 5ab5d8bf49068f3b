"""A run may begin with games that it did not play: ``zerofleet fork`` and ``zerofleet import``."""

from alembic import op

revision = "1011"
down_revision = "1010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE games DROP CONSTRAINT games_kind_check")
    op.execute(
        "ALTER TABLE games ADD CONSTRAINT games_kind_check "
        "CHECK (kind IN ('selfplay', 'match', 'given'))"
    )
    # The window holds given games too. Queries of kind = 'selfplay' use this index as well.
    op.execute("DROP INDEX games_window")
    op.execute("CREATE INDEX games_window ON games (run, tx) WHERE kind <> 'match'")
    op.execute("""
        CREATE TABLE origins (
            run text PRIMARY KEY REFERENCES runs,
            kind text NOT NULL CHECK (kind IN ('fork', 'import')),
            source text NOT NULL,
            place text NOT NULL,
            source_id text NOT NULL,
            first_game uuid,
            last_game uuid,
            first_at timestamptz,
            last_at timestamptz,
            chosen bigint NOT NULL CHECK (chosen >= 0),
            games bigint NOT NULL DEFAULT 0 CHECK (games >= 0),
            positions bigint NOT NULL DEFAULT 0 CHECK (positions >= 0),
            left_out bigint NOT NULL DEFAULT 0 CHECK (left_out >= 0),
            retrain boolean NOT NULL,
            next_tx bigint NOT NULL DEFAULT 0,
            last_tx bigint NOT NULL DEFAULT 0,
            began_at timestamptz NOT NULL DEFAULT now(),
            finished_at timestamptz
        )
    """)


def downgrade() -> None:
    raise NotImplementedError("there is no way back but a backup")
