"""Create or update a database: tables by revisions, then functions, views and rights from files.

A migration is one transaction, in the order of ``schema``: it leaves either the old database or the
whole new one. Passwords and settings of the roles come from files.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import psycopg2
import sqlalchemy
from psycopg2 import errors, sql
from psycopg2.extensions import encrypt_password
from sqlalchemy import Connection, Row, exc, text

from zerofleet import __version__
from zerofleet.database.connection import (
    ConnectionPool,
    connection_parameters,
    place,
    require_settings,
)
from zerofleet.database.schema import (
    AFTER_TABLES,
    BEFORE_TABLES,
    SchemaVersion,
    defined,
    expected,
    read_schema_version,
    script,
)
from zerofleet.errors import ConfigError, StoreUnavailableError, ZerofleetError
from zerofleet.secrets.files import read_secret

ROLES = (
    "zerofleet_worker",
    "zerofleet_trainer",
    "zerofleet_evaluator",
    "zerofleet_console",
    "zerofleet_visitor",
)
_SCRIPTS = Path(__file__).with_name("migrations")
_OLDEST_SERVER = 15
_ALEMBIC = threading.Lock()  # its context is one for the whole process
_LOCK_SECONDS = 60.0
_LOOK_SECONDS = 0.25

# Only one migration of a database at a time. The lock is on Alembic's table, which belongs to the
# owner, so a role that may only read a table cannot block it. In an empty database this makes the
# table as Alembic would, and a second migration waits for the first to commit it.
_LOCK = (
    "CREATE TABLE IF NOT EXISTS alembic_version ("
    "version_num varchar(32) CONSTRAINT alembic_version_pkc PRIMARY KEY)",
    "LOCK TABLE alembic_version IN EXCLUSIVE MODE",
)

_BLOCKERS = """
SELECT pid, coalesce(usename, 'another role') AS role, application_name AS application
FROM unnest(pg_blocking_pids(:pid)) AS pid LEFT JOIN pg_stat_activity USING (pid) ORDER BY pid
"""

# Rights on our views that people have granted, for whole views only.
_GRANTS = f"""
SELECT c.relname, format(
    'GRANT %s ON %I TO %s%s', a.privilege_type, c.relname,
    CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
    CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END
)
FROM definitions AS d JOIN pg_class AS c ON c.relname = ANY (d.views)
CROSS JOIN LATERAL aclexplode(c.relacl) AS a
WHERE c.relnamespace = 'public'::regnamespace AND a.grantee <> c.relowner
    AND pg_get_userbyid(a.grantee) NOT IN {ROLES}
"""


def set_role_passwords(connection: Connection, folder: Path) -> None:
    """Give each role the password in the file of its name, and only our settings; no commit.

    A role may change its own settings (``ALTER ROLE zerofleet_console SET statement_timeout = 0``),
    and new sessions would begin with them. Roles without a file keep their passwords and settings.

    The server receives only SCRAM's derivation of a password, so that no password can appear in its
    log.

    Raises:
        ConfigError: the folder has no file of a role's name, or one cannot be read.
    """
    files = [folder / role for role in ROLES if (folder / role).exists()]
    if not files:
        raise ConfigError(
            f"--role-passwords {folder} has no file named after a role: {', '.join(ROLES)}"
        )
    # Past SQLAlchemy, whose errors would quote the statement.
    raw: Any = connection.connection.dbapi_connection
    for path in files:
        verifier = encrypt_password(read_secret(path), path.name, raw, "scram-sha-256")
        statement = sql.SQL("ALTER ROLE {} PASSWORD {}").format(
            sql.Identifier(path.name), sql.Literal(verifier)
        )
        with raw.cursor() as cursor:
            cursor.execute(statement)
            _forget_settings(cursor, path.name)
            for rights in BEFORE_TABLES:
                cursor.execute(script(rights))


def _forget_settings(cursor: Any, role: str) -> None:  # noqa: ANN401 - psycopg2's
    """Reset the settings of a role, for all databases together and for each."""
    cursor.execute(
        "SELECT d.datname FROM pg_db_role_setting AS s JOIN pg_roles AS r ON r.oid = s.setrole "
        "LEFT JOIN pg_database AS d ON d.oid = s.setdatabase WHERE r.rolname = %s",
        (role,),
    )
    for (database,) in cursor.fetchall():
        where = sql.SQL("")
        if database is not None:
            where = sql.SQL("IN DATABASE {} ").format(sql.Identifier(database))
        cursor.execute(sql.SQL("ALTER ROLE {} {}RESET ALL").format(sql.Identifier(role), where))


def migrate(
    url: str,
    role_passwords: Path | None = None,
    *,
    say: Callable[[str], None] = lambda _: None,
    lock_seconds: float = _LOCK_SECONDS,
) -> None:
    """Bring a database to this version's tables, functions, views and roles; safe to repeat.

    Args:
        url: URL of the database, as its owner. Missing roles are made, for which the owner needs
            CREATEROLE.
        role_passwords: a folder; each role gets the password in the file of its name, if there is
            one. This comes last, because the roles must exist.
        say: called, also from another thread, with the session whose lock is waited for, and with
            Postgres' warnings.
        lock_seconds: how long to wait for a lock.

    Raises:
        ConfigError: a newer version has migrated it, or 0.1 made it; a person's own view depends on
            one of ours; the owner lacks a right, or a file cannot be read.
        StoreUnavailableError: Postgres does not answer, or another session keeps a lock.
    """
    with _ALEMBIC, _Migration(url) as migration:
        migration.run(place(connection_parameters(url)), role_passwords, say, lock_seconds)


def check_database(url: str) -> None:
    """Check whether ``migrate`` could be called for a database; change nothing in it.

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

    def run(
        self,
        where: str,
        role_passwords: Path | None,
        say: Callable[[str], None],
        lock_seconds: float,
    ) -> None:
        with self._our_errors(), self._engine.connect() as connection:
            connection = connection.execution_options(no_parameters=True)
            connection.execute(text("SET statement_timeout = 0"))
            connection.execute(text(f"SET lock_timeout = {round(1000 * lock_seconds)}"))
            connection.commit()
            raw: Any = connection.connection.dbapi_connection
            raw.notices = _Warnings(say)
            with self._naming_blockers(raw.info.backend_pid, where, say):
                _lock(connection)
                _check_server(connection, where)
                if _checked_version(connection, where) != expected():
                    _upgrade(connection, where)
                connection.commit()
                # also if nothing is new: after a pause of the run there is no partition for today
                connection.exec_driver_sql("SELECT make_partitions(NULL, NULL)")
                connection.commit()
                if role_passwords is not None:
                    _lock(connection)
                    set_role_passwords(connection, role_passwords)
                    connection.commit()

    @contextlib.contextmanager
    def _naming_blockers(self, pid: int, where: str, say: Callable[[str], None]) -> Generator[None]:
        """Report which sessions a session waits for, and name them when it gives up.

        Args:
            pid: process ID of the session.
            where: the database, for messages.
            say: called once for each new holder of a lock.

        Raises:
            StoreUnavailableError: the session waited for a lock in vain.
        """
        seen: list[str] = []
        done = threading.Event()

        def watch() -> None:
            while not done.wait(_LOOK_SECONDS):
                with contextlib.suppress(exc.DBAPIError, ZerofleetError):
                    rows = self._rows(_BLOCKERS, pid=pid)
                    holders = " and ".join(map(_session_words, rows))
                    if holders and holders not in seen:
                        seen.append(holders)
                        say(f"waiting for a lock in the database at {where}, held by {holders}")

        watcher = threading.Thread(target=watch, name="blockers")
        watcher.start()
        try:
            yield
        except (exc.DBAPIError, psycopg2.Error) as error:
            cause = error.orig if isinstance(error, exc.DBAPIError) else error
            if not isinstance(cause, errors.LockNotAvailable):
                raise
            raise StoreUnavailableError(
                f"cannot migrate the database at {where}: "
                f"{seen[-1] if seen else 'another session'} keeps a lock that the migration needs. "
                "Let it finish, or end it (`SELECT pg_terminate_backend(PID)`), and try again"
            ) from error
        finally:
            done.set()
            watcher.join()


class _Warnings:
    """Passes Postgres' warnings on. SQLAlchemy empties a list of notices, but not this."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def append(self, notice: str) -> None:
        """Take a notice from psycopg2."""
        if notice.startswith("WARNING:"):
            self._say(notice.removeprefix("WARNING:").splitlines()[0].strip())


def _session_words(row: Row[Any]) -> str:
    application = f", application {row.application}" if row.application else ""
    return f"process {row.pid} of Postgres (role {row.role}{application})"


def _lock(connection: sqlalchemy.Connection) -> None:
    """Begin a transaction that excludes other migrations of this database."""
    while True:
        try:
            for statement in _LOCK:
                connection.exec_driver_sql(statement)
        except exc.DBAPIError as error:
            # Another migration made the table while this one waited for it.
            if not isinstance(error.orig, errors.UniqueViolation | errors.DuplicateTable):
                raise
            connection.rollback()
        else:
            return


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
            f"the functions and views of the database at {where} belong to a newer zerofleet "
            f"({version.zerofleet}, this is {__version__}): update zerofleet"
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
    """Drop the views and functions of the last migration, because their columns may change.

    Returns:
        Views, with statements that restore the rights of roles other than ours.
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
                    f"the database at {where} contains objects that are not ours and would be lost "
                    f"({_dependents(error.orig)}): save their definitions (`pg_get_viewdef`), drop "
                    "them, run `zerofleet migrate`, and create them again"
                ) from error
    return grants


def _dependents(error: errors.DependentObjectsStillExist) -> str:
    return "; ".join((error.diag.message_detail or "").splitlines())


def _upgrade_tables(connection: sqlalchemy.Connection) -> None:
    # half a second to import, and useless to a service
    from alembic import command
    from alembic.config import Config

    configuration = Config()
    configuration.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    configuration.attributes["connection"] = connection
    command.upgrade(configuration, "head")
