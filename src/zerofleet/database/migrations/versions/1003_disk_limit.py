"""``position_needs`` knows what a run needs at its disk limit, and whether it keeps to that."""

from alembic import op

revision = "1003"
down_revision = "1002"
branch_labels = None
depends_on = None

_COMMENTS = {
    "limit_since": (
        "At the disk limit, searches of games that began and were stored before may go; null: the "
        "run has no limit, so what since says stays."
    ),
    "limit_warning": (
        "Why the run takes more room than [retention] max_disk_gb, for people; null: it does not."
    ),
    "limit_warned_at": "When that began.",
}


def upgrade() -> None:
    op.execute(
        "ALTER TABLE position_needs ADD COLUMN limit_since timestamptz, "
        "ADD COLUMN limit_warning text, ADD COLUMN limit_warned_at timestamptz"
    )
    for column, comment in _COMMENTS.items():
        op.execute(f"COMMENT ON COLUMN position_needs.{column} IS '{comment}'")


def downgrade() -> None:
    raise NotImplementedError("there is no way back but a backup")
