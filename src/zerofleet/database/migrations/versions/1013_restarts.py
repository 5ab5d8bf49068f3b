"""``restarts`` has the positions at which games of self-play begin again."""

from alembic import op

revision = "1013"
down_revision = "1012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "CREATE TABLE restarts (run text PRIMARY KEY REFERENCES runs, positions jsonb NOT NULL, "
        "epoch bigint NOT NULL, at timestamptz NOT NULL)"
    )


def downgrade() -> None:
    raise NotImplementedError("there is no way back but a backup")
