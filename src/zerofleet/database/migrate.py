"""Make or update the tables of a database."""

from __future__ import annotations

import threading
from pathlib import Path

import sqlalchemy
from sqlalchemy import text

from zerofleet.database.address import connection_parameters, place
from zerofleet.database.connection import ConnectionPool
from zerofleet.database.role_passwords import set_role_passwords
from zerofleet.database.schema import REVISION, check_revision
from zerofleet.errors import ConfigError

_SCRIPTS = Path(__file__).with_name("migrations")
_OLDEST_SERVER = 15
_ALEMBIC = threading.Lock()  # its context is one for the whole process
_LOCK = 0x7A65726F  # "zero": one migration of a database at a time


def migrate(url: str, role_passwords: Path | None = None) -> None:
    """Bring a database to this version's tables, functions, views and roles; safe to repeat.

    Args:
        url: of the database, as its owner. Roles are made where they are missing, for which the
            owner needs CREATEROLE.
        role_passwords: a folder; each role gets the password in the file of its name, if there is
            one. Afterwards, because the roles must be there.

    Raises:
        ConfigError: a newer version has migrated it, the owner lacks a right, or a file cannot be
            read.
        StoreUnavailableError: Postgres does not answer.
    """
    with _ALEMBIC, _Migration(url) as migration:
        migration.run(place(connection_parameters(url)), role_passwords)


class _Migration(ConnectionPool):
    def run(self, where: str, role_passwords: Path | None) -> None:
        with self._our_errors(), self._engine.connect() as connection:
            connection = connection.execution_options(no_parameters=True)
            connection.execute(text("SET statement_timeout = 0"))
            connection.execute(text(f"SELECT pg_advisory_lock({_LOCK})"))
            connection.commit()
            _check_server(connection, where)
            revision = self._revision(connection)
            check_revision(revision, where)
            if revision != REVISION:
                _upgrade(connection)
            if role_passwords is not None:
                set_role_passwords(connection, role_passwords)

    def _revision(self, connection: sqlalchemy.Connection) -> str | None:
        known = connection.scalar(text("SELECT to_regclass('alembic_version') IS NOT NULL"))
        revision = (
            connection.scalar(text("SELECT version_num FROM alembic_version")) if known else None
        )
        connection.commit()
        return revision


def _check_server(connection: sqlalchemy.Connection, where: str) -> None:
    version = int(connection.scalar(text("SHOW server_version_num")) or 0)
    if version < _OLDEST_SERVER * 10_000:
        raise ConfigError(
            f"Postgres at {where} is version {version // 10_000}, but zerofleet needs "
            f"{_OLDEST_SERVER} or newer"
        )


def _upgrade(connection: sqlalchemy.Connection) -> None:
    # Half a second to import, and of no use to a service.
    from alembic import command
    from alembic.config import Config

    configuration = Config()
    configuration.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    configuration.attributes["connection"] = connection
    command.upgrade(configuration, "head")
    connection.commit()
