"""``trainer_progress`` says how far training is, for workers that Redis cannot tell."""

from alembic import op

revision = "1004"
down_revision = "1003"
branch_labels = None
depends_on = None

_COMMENTS = {
    "run": "Of runs.",
    "unspent_positions": "Positions whose samples the trainer had not drawn yet.",
    "tx": "Games up to this transaction are counted in unspent_positions.",
    "epoch": "Fence of the trainer that wrote the row.",
    "at": "When the row was written, by this server's clock.",
}


def upgrade() -> None:
    op.execute(
        "CREATE TABLE trainer_progress (run text PRIMARY KEY REFERENCES runs, "
        "unspent_positions real NOT NULL, tx xid8 NOT NULL, epoch bigint NOT NULL, "
        "at timestamptz NOT NULL)"
    )
    op.execute(
        "COMMENT ON TABLE trainer_progress IS 'How far the trainer of each run is, written every "
        "two seconds. Self-play keeps pace with it.'"
    )
    for column, comment in _COMMENTS.items():
        text = comment.replace("'", "''")
        op.execute(f"COMMENT ON COLUMN trainer_progress.{column} IS '{text}'")


def downgrade() -> None:
    raise NotImplementedError("there is no way back but a backup")
