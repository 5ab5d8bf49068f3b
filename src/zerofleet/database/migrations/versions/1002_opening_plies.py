"""``games`` has the number of plies at the start of a self-play game that no search chose."""

from alembic import op

revision = "1002"
down_revision = "1001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE games ADD COLUMN opening_plies smallint CHECK (opening_plies >= 0)")
    op.execute(
        "COMMENT ON COLUMN games.opening_plies IS 'Self-play: plies at the start that no search "
        "chose, because they were drawn at random or repeat an earlier game (a fork). Null: a "
        "match, or a game that was stored before this column was there.'"
    )


def downgrade() -> None:
    raise NotImplementedError("there is no way back but a backup")
