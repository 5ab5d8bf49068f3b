"""Where a database is: its URL, as people and libraries write it, and as we may print it."""

from __future__ import annotations

import re
from typing import Any

import psycopg2
from psycopg2.extensions import make_dsn, parse_dsn

from zerofleet.errors import ConfigError
from zerofleet.secrets.files import read_secret
from zerofleet.secrets.urls import split_password_file

_HIGHEST_PORT = 65535
_SCHEME = re.compile(r"^postgres(ql)?(\+\w+)?://")


def libpq_url(url: str) -> str:
    """A URL that libpq's programs understand, from SQLAlchemy's way of writing it or libpq's."""
    return _SCHEME.sub("postgresql://", url)


def connection_parameters(url: str) -> dict[str, Any]:
    """Libpq's parameters of a URL, with the password that is in its ``password_file`` now.

    Raises:
        ConfigError: it is not the URL of a Postgres; the message does not repeat it, because it
            may hold a password. Or the file cannot be read.
    """
    bare, path = split_password_file(url)
    try:
        if not _SCHEME.match(bare):
            raise ValueError
        parameters = parse_dsn(libpq_url(bare))
    except (ValueError, psycopg2.Error) as error:
        raise ConfigError(
            "the database URL is not one of Postgres: write postgresql://user@host:5432/name"
        ) from error
    for port in str(parameters.get("port", "")).split(","):
        if port and not (re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) <= _HIGHEST_PORT):
            raise ConfigError(f"the database URL has port {port[:40]!r}: give 1 to {_HIGHEST_PORT}")
    return parameters if path is None else {**parameters, "password": read_secret(path)}


def without_password(url: str) -> tuple[str, str | None]:
    """A connection string for libpq's programs, and apart from it the password, if there is one.

    Other users can see a program's arguments, so the password must go another way.

    Raises:
        ConfigError: it is not the URL of a Postgres.
    """
    parameters = connection_parameters(url)
    password = parameters.pop("password", None)
    return make_dsn(**parameters), password


def place(parameters: dict[str, Any]) -> str:
    """``host:port`` of a server, for messages."""
    host = parameters.get("host") or parameters.get("hostaddr") or "localhost"
    return f"{host}:{parameters.get('port') or 5432}"
