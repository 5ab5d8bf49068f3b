"""A test match may have its own number of simulations; its games then do not count for ratings."""

from alembic import op

revision = "1014"
down_revision = "1013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "ALTER TABLE matches ADD COLUMN rated boolean NOT NULL DEFAULT true "
        "CHECK (rated OR kind = 'trial')"
    )
    # Test matches with different numbers of simulations, or different `rated`, are separate.
    op.execute("DROP INDEX matches_once")
    op.execute(
        "CREATE UNIQUE INDEX matches_once ON matches "
        "(run, kind, player, opponent, md5(coalesce(openings, '')), "
        "(CASE kind WHEN 'trial' THEN num_simulations ELSE 0 END), rated) WHERE kind <> 'gate'"
    )


def downgrade() -> None:
    raise NotImplementedError("there is no way back but a backup")
