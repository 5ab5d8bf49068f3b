"""Passwords of our roles, from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from psycopg2 import sql
from psycopg2.extensions import encrypt_password
from sqlalchemy import Connection

from zerofleet.errors import ConfigError
from zerofleet.secrets.files import read_secret

ROLES = ("zerofleet_worker", "zerofleet_trainer", "zerofleet_evaluator", "zerofleet_console")


def set_role_passwords(connection: Connection, folder: Path) -> None:
    """Give each role the password in the file of its name; roles without a file keep theirs.

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
        with raw, raw.cursor() as cursor:  # a transaction
            cursor.execute(statement)
