"""A game of self-play is marked if it began at a restart."""

from alembic import op

revision = "1015"
down_revision = "1014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE games ADD COLUMN restarted boolean NOT NULL DEFAULT false")
    op.execute("ALTER TYPE game_record ADD ATTRIBUTE restarted boolean")


def downgrade() -> None:
    raise NotImplementedError("there is no way back but a backup")
