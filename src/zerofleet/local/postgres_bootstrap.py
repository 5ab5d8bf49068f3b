"""Users and the database of a new cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

import psycopg2
from psycopg2 import sql

from zerofleet.errors import ConfigError

_DATABASE = "zerofleet"
_SUPERUSER = "postgres"
_OWNER = "zerofleet"
_NO_LARGE_OBJECTS = """
DO $$
DECLARE
    of_large_objects regprocedure;
BEGIN
    FOR of_large_objects IN
        SELECT oid FROM pg_proc
        WHERE pronamespace = 'pg_catalog'::regnamespace
            AND (proname LIKE 'lo\\_%' OR proname IN ('loread', 'lowrite'))
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', of_large_objects);
        -- Or its dumps, which repeat that, could be restored by the superuser alone.
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO zerofleet', of_large_objects);
    END LOOP;
END
$$
"""


def bootstrap(port: int, passwords: Mapping[str, str], log: Path) -> None:
    """Make what is missing; the database comes last, so it marks that all is there.

    The owner makes the other roles and therefore may change them in migrations; it is no superuser.

    Args:
        port: of the server on 127.0.0.1.
        passwords: of each user.
        log: of the server, for errors.

    Raises:
        ConfigError: the server does not let us in, or has ended again.
    """
    try:
        _make_what_is_missing(port, passwords)
    except psycopg2.Error as error:
        is_login = "password authentication failed" in str(error)
        hint = (
            "the folder passwords/ beside its cluster belongs to it: restore both or neither"
            if is_login
            else f"see {log}"
        )
        raise ConfigError(
            f"Postgres has started but cannot be used: {str(error).strip()} ({hint})"
        ) from error


def _make_what_is_missing(port: int, passwords: Mapping[str, str]) -> None:
    with _Session(port, _SUPERUSER, passwords) as session:
        if session.holds("SELECT 1 FROM pg_database WHERE datname = %s", _DATABASE):
            return
        session.make_role(_OWNER, "LOGIN CREATEROLE")
    with _Session(port, _OWNER, passwords) as owner:
        for role in passwords.keys() - {_SUPERUSER, _OWNER}:
            owner.make_role(role, "LOGIN")
    with _Session(port, _SUPERUSER, passwords, "template1") as session:
        # What a migration cannot do, whose role is no superuser: see database/rights/roles.sql.
        session.run(sql.SQL(_NO_LARGE_OBJECTS))
    with _Session(port, _SUPERUSER, passwords) as session:
        create = sql.SQL("CREATE DATABASE {} OWNER {}")
        session.run(create.format(sql.Identifier(_DATABASE), sql.Identifier(_OWNER)))


class _Session:
    def __init__(
        self, port: int, user: str, passwords: Mapping[str, str], database: str = "postgres"
    ) -> None:
        self._passwords = passwords
        self._connection = psycopg2.connect(
            host="127.0.0.1",
            port=port,
            user=user,
            password=passwords[user],
            dbname=database,
            sslmode="disable",
            connect_timeout=10,
        )
        self._connection.autocommit = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._connection.close()

    def run(self, statement: sql.Composable) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)

    def holds(self, question: str, name: str) -> bool:
        with self._connection.cursor() as cursor:
            cursor.execute(question, (name,))
            return cursor.fetchone() is not None

    def make_role(self, role: str, options: str) -> None:
        if self.holds("SELECT 1 FROM pg_roles WHERE rolname = %s", role):
            verb = "ALTER"  # an earlier start got this far
        else:
            verb = "CREATE"
        statement = sql.SQL(f"{verb} ROLE {{}} {options} PASSWORD {{}}")
        self.run(statement.format(sql.Identifier(role), sql.Literal(self._passwords[role])))
