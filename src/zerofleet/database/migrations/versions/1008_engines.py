"""A chess or GTP program may be a player of a match."""

from alembic import op

revision = "1008"
down_revision = "1007"
branch_labels = None
depends_on = None

# As in zerofleet.config.anchor_names: printable ASCII without a semicolon, 199 characters at most.
_ENGINE = "(uci|gtp):[!-:<-~]([ -:<-~]{0,193}[!-:<-~])?"
_PLAYER = f"^([1-9][0-9]*(/(fp32|int8|fp16))?|random|search|gnugo:([1-9]|10)|{_ENGINE})$"


def upgrade() -> None:
    for column in ("player", "opponent"):
        name = f"matches_{column}_check"
        op.execute(f"ALTER TABLE matches DROP CONSTRAINT {name}")
        # text_ops of a fixed collation: a range of letters depends on it otherwise
        op.execute(
            f"ALTER TABLE matches ADD CONSTRAINT {name} "
            f"CHECK ({column} COLLATE \"C\" ~ '{_PLAYER}')"
        )


def downgrade() -> None:
    raise NotImplementedError("there is no way back but a backup")
