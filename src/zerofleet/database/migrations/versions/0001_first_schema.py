"""The first schema: tables, functions, views, roles."""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_FOLDER = Path(__file__).with_name(revision)


def upgrade() -> None:
    for part in ("tables", "functions", "views", "roles"):
        op.get_bind().exec_driver_sql((_FOLDER / f"{part}.sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    raise NotImplementedError("there is nothing before the first schema: drop the database instead")
