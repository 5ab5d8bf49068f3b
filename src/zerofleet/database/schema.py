"""Which version of the tables this code is written for."""

from zerofleet.errors import ConfigError

REVISION = "0005"
"""The newest migration."""
_KNOWN = frozenset(f"{number:04}" for number in range(1, int(REVISION) + 1))


def check_revision(revision: str | None, where: str) -> None:
    """Refuse tables that this code does not know.

    Args:
        revision: as the database says; None when it has no tables yet.
        where: the database, for the message.

    Raises:
        ConfigError: a newer version has migrated it.
    """
    if revision is not None and revision not in _KNOWN:
        raise ConfigError(
            f"the database at {where} was migrated by a newer zerofleet (revision {revision}, "
            f"this one knows {REVISION}): update zerofleet"
        )
