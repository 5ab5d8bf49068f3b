"""A Python class may be a player of a match."""

from alembic import op

revision = "1012"
down_revision = "1011"
branch_labels = None
depends_on = None

# As in zerofleet.config.anchor_names and in revision 1008.
_ENGINE = "(uci|gtp):[!-:<-~]([ -:<-~]{0,193}[!-:<-~])?"
_CLASS = "python:[A-Za-z_][A-Za-z0-9_.]{0,119}:[A-Za-z_][A-Za-z0-9_]{0,59}"
_PLAYER = f"^([1-9][0-9]*(/(fp32|int8|fp16))?|random|search|gnugo:([1-9]|10)|{_ENGINE}|{_CLASS})$"


def upgrade() -> None:
    for column in ("player", "opponent"):
        name = f"matches_{column}_check"
        op.execute(f"ALTER TABLE matches DROP CONSTRAINT {name}")
        # The collation is fixed, because a range of letters depends on it.
        op.execute(
            f"ALTER TABLE matches ADD CONSTRAINT {name} "
            f"CHECK ({column} COLLATE \"C\" ~ '{_PLAYER}')"
        )


def downgrade() -> None:
    raise NotImplementedError("there is no way back but a backup")
