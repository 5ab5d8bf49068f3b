"""Resignation, training targets beside visit counts, the overfit watch, sequential matches."""

from pathlib import Path

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_FOLDER = Path(__file__).with_name(revision)


def upgrade() -> None:
    parts = ("games", "resignation", "training", "matches")
    scripts = [(_FOLDER / f"{part}.sql").read_text(encoding="utf-8") for part in parts]
    op.get_bind().exec_driver_sql("\n".join(scripts))


def downgrade() -> None:
    raise NotImplementedError(
        "rows of 0002 hold what 0001 cannot: restore a backup made before the migration instead"
    )
