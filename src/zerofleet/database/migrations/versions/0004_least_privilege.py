"""Roles with limits of their own, and without the rights that no service uses."""

from pathlib import Path

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_FOLDER = Path(__file__).with_name(revision)


def upgrade() -> None:
    script = (_FOLDER / "roles.sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(script)


def downgrade() -> None:
    raise NotImplementedError("0004 changes rights alone: grant what is missed instead")
