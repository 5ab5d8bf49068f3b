"""``train_metrics`` has the losses of a network of one's own."""

from alembic import op

revision = "1010"
down_revision = "1009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE train_metrics ADD COLUMN own_losses jsonb")


def downgrade() -> None:
    raise NotImplementedError("there is no way back but a backup")
