"""The schema that this code requires: tables of a revision, and our functions and views.

Tables change by Alembic's revisions (``migrations/versions``). Functions, views, comments and
rights are defined once each, in files that a migration executes from the first to the last line
whenever one of them has changed. The database stores a digest of these files with their version of
zerofleet, so that an older version does not replace them with its own.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from sqlalchemy import Connection, text

from zerofleet import __version__
from zerofleet.errors import ConfigError

REVISION = "1015"
"""The newest revision of the tables."""
_FIRST_REVISION = "1000"

# In the order of dependencies: a foreign key after its table, a function after its tables.
TABLES = (
    "tables/definitions.sql",
    "tables/runs.sql",
    "tables/models.sql",
    "tables/games.sql",
    "tables/retention.sql",
    "tables/matches.sql",
    "tables/promotions.sql",
    "tables/ratings.sql",
    "tables/training.sql",
    "tables/resign_thresholds.sql",
)
"""Files that the first revision executes."""
BEFORE_TABLES = ("rights/roles.sql", "rights/server.sql")
"""Files that each migration executes before the tables' revisions, in this order."""
AFTER_TABLES = (
    "tables/comments.sql",
    "functions/triggers.sql",
    "functions/runs.sql",
    "functions/retention.sql",
    "functions/games.sql",
    "functions/window.sql",
    "functions/unfinished_games.sql",
    "functions/adoption.sql",
    "functions/resign_curve.sql",
    "functions/restarts.sql",
    "views/games.sql",
    "views/retention.sql",
    "views/matches.sql",
    "views/promotions.sql",
    "views/ratings.sql",
    "views/models.sql",
    "views/training.sql",
    "views/resignation.sql",
    "rights/grants.sql",
)
"""Files that each migration executes after the tables' revisions, in this order."""

_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """The schema of a database; None for missing parts."""

    revision: str | None
    digest: str | None
    zerofleet: str | None = field(compare=False)  # version that made the functions and views

    @property
    def is_newer(self) -> bool:
        """Whether the functions and views belong to a newer zerofleet than this one."""
        theirs = self.digest != expected().digest and self.zerofleet
        return bool(theirs) and _release(theirs) > _release(__version__)


def script(name: str) -> str:
    """Return the SQL of one of our files, named relative to this folder."""
    return (_FOLDER / name).read_text(encoding="utf-8")


def defined(kind: str) -> list[str]:
    """Return the names that our files create and a migration drops first.

    ``kind`` is VIEW or FUNCTION. Trigger functions are not included: they are replaced, because
    triggers depend on them.
    """
    return [
        name
        for part in AFTER_TABLES
        for name in re.findall(rf"^CREATE {kind} (\w+)", script(part), re.MULTILINE)
    ]


@cache
def expected() -> SchemaVersion:
    """Return the schema that this code is written for."""
    digest = hashlib.sha256()
    for name in (*BEFORE_TABLES, *AFTER_TABLES):
        digest.update(f"{name}\n{script(name)}\n".encode())
    return SchemaVersion(REVISION, digest.hexdigest(), __version__)


def read_schema_version(connection: Connection, where: str) -> SchemaVersion:
    """Return the schema of the database.

    Args:
        where: the database, for messages.

    Raises:
        ConfigError: a newer version has migrated it, or zerofleet 0.1 made it.
    """
    has_revision, has_digest = connection.execute(
        text(
            "SELECT to_regclass('alembic_version') IS NOT NULL, "
            "to_regclass('definitions') IS NOT NULL"
        )
    ).one()
    tables = "SELECT version_num FROM alembic_version"
    revision = connection.scalar(text(tables)) if has_revision else None
    check_revision(revision, where)
    made = "SELECT digest, version FROM definitions"
    definitions = connection.execute(text(made)).one_or_none() if has_digest else None
    return SchemaVersion(revision, *(definitions or (None, None)))


def _release(version: str) -> list[int]:
    """Return the release of ``1.2.0`` and of its candidates, ``1.2.0rc1``: [1, 2, 0]."""
    found = re.match(r"[0-9.]*[0-9]", version)
    return [int(number) for number in found[0].split(".")] if found else []


def check_revision(revision: str | None, where: str) -> None:
    """Refuse tables that this code does not know.

    Args:
        revision: revision in the database; None if it has no tables yet.
        where: the database, for the message.

    Raises:
        ConfigError: a newer version has migrated it, or zerofleet 0.1 made it.
    """
    if revision is None:
        return
    if revision < _FIRST_REVISION:
        raise ConfigError(
            f"the database at {where} was made by zerofleet 0.1 (revision {revision}), whose runs "
            "cannot be resumed: start again in an empty database, which `zerofleet up` makes in a "
            "new folder (`--data DIR`, or remove the folder of the old run) and `CREATE DATABASE` "
            "on a server"
        )
    if revision > REVISION:
        raise ConfigError(
            f"the database at {where} was migrated by a newer zerofleet (revision {revision}, "
            f"this one knows {REVISION}): update zerofleet"
        )
