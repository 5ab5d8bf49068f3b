"""A game may begin at a given position, and a test match at the positions of an opening book."""

from alembic import op

revision = "1007"
down_revision = "1006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TYPE game_record ADD ATTRIBUTE start text")
    op.execute(
        "ALTER TABLE games ADD COLUMN start text NOT NULL DEFAULT '' "
        "CHECK (octet_length(start) <= 1000)"
    )
    op.execute("ALTER TABLE matches ADD COLUMN openings text CHECK (openings <> '')")
    # A test match with other openings is another match. Null: openings drawn by the seed.
    op.execute("DROP INDEX matches_once")
    op.execute(
        "CREATE UNIQUE INDEX matches_once ON matches "
        "(run, kind, player, opponent, md5(coalesce(openings, ''))) WHERE kind <> 'gate'"
    )


def downgrade() -> None:
    raise NotImplementedError("there is no way back but a backup")
