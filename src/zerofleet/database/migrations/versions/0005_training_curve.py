"""Entropies, agreement and bias beside the losses in ``training_curve``."""

from pathlib import Path

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_FOLDER = Path(__file__).with_name(revision)


def upgrade() -> None:
    script = (_FOLDER / "views.sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(script)


def downgrade() -> None:
    raise NotImplementedError("0005 adds columns to a view alone: nothing needs them gone")
