"""Variants of models in fewer bits, and the matches that judge them."""

from pathlib import Path

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_FOLDER = Path(__file__).with_name(revision)


def upgrade() -> None:
    script = (_FOLDER / "variants.sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(script)


def downgrade() -> None:
    raise NotImplementedError(
        "rows of 0003 name files that 0002 does not know: restore a backup made before the "
        "migration instead"
    )
