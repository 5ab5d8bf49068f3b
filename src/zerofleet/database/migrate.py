"""Make or update a database: tables by revisions, then functions, views and rights as files say.

All of it is one transaction, in the order of ``schema``: what a migration leaves is either the
database as it was or the whole new one.
"""

from __future__ import annotations

import threading
from pathlib import Path

import sqlalchemy
from psycopg2 import errors
from sqlalchemy import exc, text

from zerofleet import __version__
from zerofleet.database.address import connection_parameters, place
from zerofleet.database.connection import ConnectionPool, require_settings
from zerofleet.database.role_passwords import set_role_passwords
from zerofleet.database.schema import (
    AFTER_TABLES,
    BEFORE_TABLES,
    SchemaVersion,
    defined,
    expected,
    read_schema_version,
    script,
)
from zerofleet.errors import ConfigError

_SCRIPTS = Path(__file__).with_name("migrations")
_OLDEST_SERVER = 15
_ALEMBIC = threading.Lock()  # its context is one for the whole process
_LOCK = 0x7A65726F  # "zero": one migration of a database at a time

# The rights on our views that people have given, whole views only.
_GRANTS = """
SELECT c.relname, format(
    'GRANT %s ON %I TO %s%s', a.privilege_type, c.relname,
    CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
    CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END
)
FROM definitions AS d JOIN pg_class AS c ON c.relname = ANY (d.views)
CROSS JOIN LATERAL aclexplode(c.relacl) AS a
WHERE c.relnamespace = 'public'::regnamespace AND a.grantee <> c.relowner
    AND pg_get_userbyid(a.grantee) NOT IN (
        'zerofleet_worker', 'zerofleet_trainer', 'zerofleet_evaluator', 'zerofleet_console'
    )
"""


def migrate(url: str, role_passwords: Path | None = None) -> None:
    """Bring a database to this version's tables, functions, views and roles; safe to repeat.

    Args:
        url: of the database, as its owner. Roles are made where they are missing, for which the
            owner needs CREATEROLE.
        role_passwords: a folder; each role gets the password in the file of its name, if there is
            one. Afterwards, because the roles must be there.

    Raises:
        ConfigError: a newer version has migrated it, or 0.1 made it; a person's own view depends
            on one of ours; the owner lacks a right, or a file cannot be read.
        StoreUnavailableError: Postgres does not answer.
    """
    with _ALEMBIC, _Migration(url) as migration:
        migration.run(place(connection_parameters(url)), role_passwords)


def check_database(url: str) -> None:
    """Look whether ``migrate`` could be called for a database; change nothing in it.

    Raises:
        ConfigError: a newer version has migrated it, or 0.1 made it, or the server is too old.
        StoreUnavailableError: Postgres does not answer.
    """
    with _Migration(url) as migration:
        migration.check(place(connection_parameters(url)))


class _Migration(ConnectionPool):
    def check(self, where: str) -> None:
        with self._our_errors(), self._engine.connect() as connection:
            _check_server(connection, where)
            _checked_version(connection, where)

    def run(self, where: str, role_passwords: Path | None) -> None:
        with self._our_errors(), self._engine.connect() as connection:
            connection = connection.execution_options(no_parameters=True)
            connection.execute(text("SET statement_timeout = 0"))
            connection.execute(text(f"SELECT pg_advisory_lock({_LOCK})"))
            connection.commit()
            _check_server(connection, where)
            version = _checked_version(connection, where)
            connection.commit()
            if version != expected():
                _upgrade(connection, where)
            # Also where nothing is new: after a pause of the run no partition is for today.
            connection.exec_driver_sql("SELECT make_partitions(NULL, NULL)")
            connection.commit()
            if role_passwords is not None:
                set_role_passwords(connection, role_passwords)


def _check_server(connection: sqlalchemy.Connection, where: str) -> None:
    require_settings(connection, where)
    version = int(connection.scalar(text("SHOW server_version_num")) or 0)
    if version < _OLDEST_SERVER * 10_000:
        raise ConfigError(
            f"Postgres at {where} is version {version // 10_000}, but zerofleet needs "
            f"{_OLDEST_SERVER} or newer"
        )


def _checked_version(connection: sqlalchemy.Connection, where: str) -> SchemaVersion:
    version = read_schema_version(connection, where)
    if version.is_newer:
        raise ConfigError(
            f"the functions and views of the database at {where} are those of a newer "
            f"zerofleet ({version.zerofleet}, this is {__version__}): update zerofleet"
        )
    return version


def _upgrade(connection: sqlalchemy.Connection, where: str) -> None:
    grants = _drop_definitions(connection, where)
    for name in BEFORE_TABLES:
        connection.exec_driver_sql(script(name))
    _upgrade_tables(connection)
    for name in AFTER_TABLES:
        connection.exec_driver_sql(script(name))
    for view, statement in grants:
        if view in defined("VIEW"):
            connection.exec_driver_sql(statement)
    connection.exec_driver_sql("DELETE FROM definitions")
    names = (", ".join(f"'{name}'" for name in defined(kind)) for kind in ("VIEW", "FUNCTION"))
    connection.exec_driver_sql(
        "INSERT INTO definitions (digest, version, views, functions) VALUES "
        f"('{expected().digest}', '{__version__}', "
        + ", ".join(f"ARRAY[{listed}]" for listed in names)
        + ")"
    )


def _drop_definitions(connection: sqlalchemy.Connection, where: str) -> list[tuple[str, str]]:
    """Drop the views and functions of the last migration: their columns may be others now.

    Returns:
        Views with statements that give others than our four roles the rights that they had.
    """
    if not connection.scalar(text("SELECT to_regclass('definitions') IS NOT NULL")):
        return []
    grants = [(view, statement) for view, statement in connection.exec_driver_sql(_GRANTS)]
    for views, functions in connection.execute(text("SELECT views, functions FROM definitions")):
        for kind, names in (("VIEW", views), ("FUNCTION", functions)):
            try:
                connection.exec_driver_sql(f"DROP {kind} IF EXISTS {', '.join(names)}")
            except exc.DBAPIError as error:
                if not isinstance(error.orig, errors.DependentObjectsStillExist):
                    raise
                raise ConfigError(
                    f"the database at {where} holds what is not ours and would be lost "
                    f"({_dependents(error.orig)}): keep its definition (`pg_get_viewdef`), drop "
                    "it, run `zerofleet migrate`, and make it again"
                ) from error
    return grants


def _dependents(error: errors.DependentObjectsStillExist) -> str:
    return "; ".join((error.diag.message_detail or "").splitlines())


def _upgrade_tables(connection: sqlalchemy.Connection) -> None:
    # Half a second to import, and of no use to a service.
    from alembic import command
    from alembic.config import Config

    configuration = Config()
    configuration.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    configuration.attributes["connection"] = connection
    command.upgrade(configuration, "head")
