"""``train_metrics`` has the loss of the head that predicts the softened policy."""

from alembic import op

revision = "1001"
down_revision = "1000"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE train_metrics ADD COLUMN soft_policy_loss real")
    op.execute(
        "COMMENT ON COLUMN train_metrics.soft_policy_loss IS 'Of the last step''s batch (the first "
        "process'' share of it), in nats; null where the head has no weight.'"
    )


def downgrade() -> None:
    raise NotImplementedError("there is no way back but a backup")
