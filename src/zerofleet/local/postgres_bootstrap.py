"""Users and the database of a new cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

import psycopg2
from psycopg2 import sql

from zerofleet.database.schema import script
from zerofleet.errors import ConfigError

_DATABASE = "zerofleet"
_SUPERUSER = "postgres"
_OWNER = "zerofleet"


def bootstrap(port: int, passwords: Mapping[str, str], log: Path) -> None:
    """Make the roles and the database that are missing, and forbid what burdens others.

    The owner makes the other roles and therefore may change them in migrations; it is no superuser.
    A cluster of an older zerofleet gets the roles and the limits that it lacks.

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
    # A migration cannot do this, whose role is no superuser.
    forbid = sql.SQL("SET zerofleet.owner = {}; ").format(sql.Literal(_OWNER))
    forbid += sql.SQL(script("rights/server.sql"))
    with _Session(port, _SUPERUSER, passwords) as session:
        # The database comes last, so it marks that all is there.
        is_new = not session.holds("SELECT 1 FROM pg_database WHERE datname = %s", _DATABASE)
        if is_new:
            session.make_role(_OWNER, "LOGIN CREATEROLE")
        made = set(passwords) if is_new else {r for r in passwords if not session.has_role(r)}
    with _Session(port, _OWNER, passwords) as owner:
        for role in made - {_SUPERUSER, _OWNER}:
            owner.make_role(role, "LOGIN")
    if is_new:
        with _Session(port, _SUPERUSER, passwords, "template1") as session:
            session.run(forbid)
        with _Session(port, _SUPERUSER, passwords) as session:
            create = sql.SQL("CREATE DATABASE {} OWNER {}")
            session.run(create.format(sql.Identifier(_DATABASE), sql.Identifier(_OWNER)))
    with _Session(port, _SUPERUSER, passwords, _DATABASE) as session:
        session.run(forbid)


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

    def has_role(self, role: str) -> bool:
        return self.holds("SELECT 1 FROM pg_roles WHERE rolname = %s", role)

    def make_role(self, role: str, options: str) -> None:
        verb = "ALTER" if self.has_role(role) else "CREATE"  # an earlier start got this far
        statement = sql.SQL(f"{verb} ROLE {{}} {options} PASSWORD {{}}")
        self.run(statement.format(sql.Identifier(role), sql.Literal(self._passwords[role])))
