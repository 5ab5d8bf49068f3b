"""Passwords and settings of our roles, from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from psycopg2 import sql
from psycopg2.extensions import encrypt_password
from sqlalchemy import Connection

from zerofleet.database.schema import BEFORE_TABLES, script
from zerofleet.errors import ConfigError
from zerofleet.secrets.files import read_secret

ROLES = (
    "zerofleet_worker",
    "zerofleet_trainer",
    "zerofleet_evaluator",
    "zerofleet_console",
    "zerofleet_visitor",
)


def set_role_passwords(connection: Connection, folder: Path) -> None:
    """Give each role the password in the file of its name, and our settings alone; no commit.

    A role may change its own settings (``ALTER ROLE zerofleet_console SET statement_timeout = 0``),
    and new sessions would begin with them. Roles without a file keep what they have.

    The server is told what SCRAM derives from a password, so that no password can come into its
    log.

    Raises:
        ConfigError: the folder has no file of a role's name, or one cannot be read.
    """
    files = [folder / role for role in ROLES if (folder / role).exists()]
    if not files:
        raise ConfigError(
            f"--role-passwords {folder} has no file that is named like a role: {', '.join(ROLES)}"
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
    """Forget what was set for a role, in all databases together and in each."""
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
