"""Exams of chess: endgames, mates, games from won endings; and errors by group."""

from alembic import op

revision = "1009"
down_revision = "1008"
branch_labels = None
depends_on = None

_POSITIONS = "lines|random|good|endgames|mates"
_GAMES = "(first|second):(evenly|longest)|gnugo:([1-9]|10)|won:(KQK|KRK|KBBK|KPK)"


def upgrade() -> None:
    op.execute("ALTER TABLE exams DROP CONSTRAINT exams_kind_check")
    op.execute(
        "ALTER TABLE exams ADD CONSTRAINT exams_kind_check "
        f"CHECK (kind ~ '^({_POSITIONS}|{_GAMES})$')"
    )
    op.execute("ALTER TABLE exams ADD COLUMN groups jsonb CHECK (jsonb_typeof(groups) = 'array')")


def downgrade() -> None:
    raise NotImplementedError("there is no way back but a backup")
