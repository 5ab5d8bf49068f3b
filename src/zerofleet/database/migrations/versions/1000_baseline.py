"""The tables of 1.0: all of ``zerofleet/database/tables``."""

from alembic import op

from zerofleet.database.schema import TABLES, script

revision = "1000"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in TABLES:
        op.get_bind().exec_driver_sql(script(name))


def downgrade() -> None:
    raise NotImplementedError("there is nothing before the first tables: drop the database instead")
