"""Connections to Redis that never hang, its errors as ours, and whether it accepts writes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import unquote, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.connection import parse_url  # pyright: ignore[reportUnknownVariableType]
from redis.credentials import CredentialProvider
from redis.exceptions import NoPermissionError, OutOfMemoryError, ReadOnlyError
from redis.retry import Retry

from zerofleet.errors import (
    ConfigError,
    StoreFullError,
    StoreLoginError,
    StoreReadOnlyError,
    StoreUnavailableError,
    ZerofleetError,
    is_disk_full,
)
from zerofleet.secrets.files import read_secret, split_password_file

_SECONDS = 5.0
_REFUSALS = (("READONLY", ReadOnlyError), ("OOM", OutOfMemoryError))
"""Error codes of refused writes that redis-py strips from the message, and its error classes."""
_REFUSAL = re.compile(r"\b(MISCONF|NOREPLICAS) .*", re.DOTALL)
_SCRIPT = " script: "  # separates the error from the script in which a write was refused

RedisStatus = Literal["up", "half up", "down"]


@dataclass(frozen=True, slots=True)
class RedisState:
    """Status of Redis after one call."""

    status: RedisStatus = "up"
    """Half up: it answers but refuses writes, for example a replica or a server without memory."""
    reason: str = ""
    """Why it is not up, in Redis' own words if there are any."""

    @classmethod
    def of(cls, error: StoreUnavailableError) -> Self:
        """Return the state that an error of ``our_errors`` stands for."""
        return cls("half up" if isinstance(error, StoreReadOnlyError) else "down", str(error))

    @classmethod
    def of_write(cls, answer: object, place: str) -> Self | None:
        """Return the state that the answer to a write stands for.

        Args:
            answer: Redis' answer, or the error that it answered with.
            place: location of the server, for the reason.

        Returns:
            None if the answer reveals nothing, for example because this user may not write.
        """
        try:
            with our_errors(place):
                if isinstance(answer, Exception):
                    raise answer
        except StoreReadOnlyError as error:
            return cls.of(error)
        except ZerofleetError:
            return None
        return cls()

    @property
    def words(self) -> str:
        """Status and reason, such as ``half up: Redis at ... takes no writes: READONLY ...``."""
        return f"{self.status}: {self.reason}" if self.reason else self.status

    def __str__(self) -> str:
        return self.words


UP = RedisState()


class RedisCaller:
    """Base of the classes that call Redis.

    Args:
        place: location of the server, for messages.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self.state = UP
        """Status of Redis after the last call."""

    @contextlib.contextmanager
    def _asking(self) -> Generator[None]:
        """Raise as ``our_errors`` does, and record the state that an error stands for."""
        try:
            with our_errors(self._place):
                yield
        except StoreUnavailableError as error:
            self.state = RedisState.of(error)
            raise


def open_redis(url: str) -> tuple[redis.Redis, str]:
    """Return a client whose calls time out, and the location of its server for messages.

    Args:
        url: ``redis://USER@host:port/db``, or ``rediss://`` for TLS (``?ssl_ca_certs=FILE``). The
            password in ``?password_file=FILE`` is read at each connection; one in the URL is never
            shown.

    Raises:
        ConfigError: the URL is not a Redis URL, or the file cannot be read.
    """
    bare, path = split_password_file(url)
    try:
        _require_whole(bare)
        parameters: dict[str, Any] = {**parse_url(bare)}
        if path is not None:
            parameters.pop("password", None)
            user: str | None = parameters.pop("username", None)
            parameters["credential_provider"] = _PasswordFile(user, path)
        pool = redis.ConnectionPool(
            **parameters,
            socket_timeout=_SECONDS,
            socket_connect_timeout=_SECONDS,
            # One retry, for a connection that a restart broke. A server that hangs is not tried
            # again, because callers would wait twice as long.
            retry=Retry(NoBackoff(), 1, (redis.ConnectionError,)),
            driver_info=None,  # saves two requests per connection that announce the library's name
        )
        # An option that redis:// does not have shows only when a connection is made.
        pool.make_connection()
    except (ValueError, TypeError, redis.RedisError) as error:
        raise ConfigError("the Redis URL is not valid: write redis://host:6379/0") from error
    if path is not None:
        read_secret(path)
    where: dict[str, Any] = pool.connection_kwargs
    place = f"{where.get('host', 'localhost')}:{where.get('port', 6379)}"
    # Its `close` closes the connections, too. Otherwise sockets stay open until they are collected.
    return redis.Redis.from_pool(pool), place


def _require_whole(url: str) -> None:
    """Raise ``ValueError`` for a URL that redis-py would misread.

    It reads a database that is not a number as 0, and port 0 as 6379.
    """
    parts = urlsplit(url)
    is_path = parts.scheme == "unix"
    if not unquote(url).isprintable() or (" " in parts.netloc and not is_path):
        raise ValueError("a character that no address has")
    if not is_path and (parts.port == 0 or not re.fullmatch("/?[0-9]{0,9}", parts.path)):
        raise ValueError("no port, or no number of a database")


@contextlib.contextmanager
def our_errors(place: str) -> Generator[None]:
    """Raise Redis' errors as ours.

    Raises:
        StoreUnavailableError: Redis does not answer; a StoreLoginError if it refuses the password.
        StoreReadOnlyError: it answers but refuses writes; a StoreFullError if its disk is full.
        ConfigError: this user may not make the call.
    """
    try:
        yield
    except NoPermissionError as error:
        raise ConfigError(
            f"Redis at {place}: {error}: give it the users of `zerofleet redis-acl`"
        ) from error
    except redis.AuthenticationError as error:
        if isinstance(error.__cause__, ConfigError):  # the password's file is gone
            raise StoreUnavailableError(f"cannot log in to Redis at {place}: {error}") from error
        raise StoreLoginError(
            f"Redis at {place} refuses the password: {error}: check the user of the URL, and the "
            "password in it or in ZEROFLEET_REDIS_PASSWORD_FILE"
        ) from error
    except (redis.RedisError, UnicodeError) as error:  # UnicodeError: not a host name
        if is_disk_full(str(error)):
            raise StoreFullError(f"the disk of Redis at {place} is full: {error}") from error
        if refusal := _refusal(error):
            raise StoreReadOnlyError(f"Redis at {place} takes no writes: {refusal}") from error
        hangs = f" within {_SECONDS:g} s" if isinstance(error, redis.TimeoutError) else ""
        raise StoreUnavailableError(f"Redis at {place} does not answer{hangs}: {error}") from error


def _refusal(error: Exception) -> str:
    """Return why Redis refuses writes, in its words; empty if the error has another cause."""
    message = str(error).partition(_SCRIPT)[0].partition(". ")[0].removesuffix(".")
    for code, kind in _REFUSALS:
        if isinstance(error, kind):
            return f"{code} {message}"
    found = _REFUSAL.search(message)
    return found.group() if found else ""


class _PasswordFile(CredentialProvider):
    """Logs in with the password that the file holds when a connection is made."""

    def __init__(self, user: str | None, path: Path) -> None:
        self._user = user
        self._path = path

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        """Return user and password; the password alone belongs to the default user.

        Raises:
            redis.AuthenticationError: the file is missing, and may come back.
        """
        try:
            password = read_secret(self._path)
        except ConfigError as error:
            raise redis.AuthenticationError(str(error)) from error
        return (password,) if self._user is None else (self._user, password)
