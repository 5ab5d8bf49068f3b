"""Refused deliveries have an age; comments say what bounds them and which runs need searches."""

from alembic import op

revision = "1005"
down_revision = "1004"
branch_labels = None
depends_on = None

_CONFLICTS = (
    "Deliveries that were not stored: another worker had adopted the game, the uid was taken by "
    "another record, or the record contradicts itself. One row for each such record, however often "
    "it came. Unfinished games, without content_sha256, that were refused or that could not go on. "
    "At most 10,000 rows and 1 GB, for 90 days; what comes when it is full is not kept."
)
_NEEDS = (
    "From when on each run needs its searches, as its trainer last said. A partition is dropped "
    "only when every run that has games needs nothing of it. A run without a row needs everything "
    "once it has had a trainer, and on its first day."
)


def upgrade() -> None:
    op.execute("CREATE INDEX IF NOT EXISTS games_conflict_at ON games_conflict (at)")
    op.execute(f"COMMENT ON TABLE games_conflict IS '{_CONFLICTS}'")
    op.execute(f"COMMENT ON TABLE position_needs IS '{_NEEDS}'")


def downgrade() -> None:
    raise NotImplementedError("there is no way back but a backup")
