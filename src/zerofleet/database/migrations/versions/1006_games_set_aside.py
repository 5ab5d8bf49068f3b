"""The tables of games set aside are named for what they hold.

A game that ``submit_games`` answers ``rejected`` is in ``refused_games``. Stored games that the
trainer cannot read are in ``unreadable_games``; that table was named ``rejected_games``.
"""

from alembic import op

revision = "1006"
down_revision = "1005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE games_conflict RENAME TO refused_games")
    op.execute("ALTER INDEX games_conflict_at RENAME TO refused_games_at")
    op.execute("ALTER TABLE rejected_games RENAME TO unreadable_games")
    # Services that are running go on: a trainer of the version before uses its name.
    op.execute(
        "CREATE VIEW rejected_games AS SELECT run, game_uid, reason, at FROM unreadable_games"
    )
    op.execute("COMMENT ON VIEW rejected_games IS 'The name of unreadable_games in zerofleet 1.0.'")


def downgrade() -> None:
    raise NotImplementedError("there is no way back but a backup")
