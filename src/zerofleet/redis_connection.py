"""Connections to Redis that never hang, its errors in our words, and whether it takes writes."""

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
"""Codes of refused writes that redis-py takes out of the message, and its errors for them."""
_REFUSAL = re.compile(r"\b(MISCONF|NOREPLICAS) .*", re.DOTALL)
_SCRIPT = " script: "  # begins what Redis says of the script in which a write was refused

RedisStatus = Literal["up", "half up", "down"]


@dataclass(frozen=True, slots=True)
class RedisState:
    """Status of Redis, as one call found it."""

    status: RedisStatus = "up"
    """Half up: it answers and refuses writes, such as a replica or a server without memory."""
    reason: str = ""
    """Why it is not up, in the words of Redis where it says anything."""

    @classmethod
    def of(cls, error: StoreUnavailableError) -> Self:
        """Return the state that an error of ``our_errors`` stands for."""
        return cls("half up" if isinstance(error, StoreReadOnlyError) else "down", str(error))

    @classmethod
    def of_write(cls, answer: object, place: str) -> Self | None:
        """Return the state that the answer to a write stands for.

        Args:
            answer: of Redis, or the error that it answered with.
            place: of its server, for the reason.

        Returns:
            None if the answer says nothing, such as to a user who may not make the write.
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
        """Such as ``half up: Redis at ... takes no writes: READONLY ...``."""
        return f"{self.status}: {self.reason}" if self.reason else self.status

    def __str__(self) -> str:
        return self.words


UP = RedisState()


class RedisCaller:
    """Base of the classes that call Redis.

    Args:
        place: of the server, for messages.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self.state = UP
        """Of Redis, as the last call found it."""

    @contextlib.contextmanager
    def _asking(self) -> Generator[None]:
        """Raise as ``our_errors`` does, and note the state that an error stands for."""
        try:
            with our_errors(self._place):
                yield
        except StoreUnavailableError as error:
            self.state = RedisState.of(error)
            raise


def open_redis(url: str) -> tuple[redis.Redis, str]:
    """A client that gives up in time, and the place of its server, for messages.

    Args:
        url: ``redis://USER@host:port/db``, ``rediss://`` for TLS (``?ssl_ca_certs=FILE``). The
            password of ``?password_file=FILE`` is read at each connection; one in the URL is never
            shown.

    Raises:
        ConfigError: the URL is not one of Redis, or the file cannot be read.
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
            # Once, for a connection that a restart has broken. A server that hangs is not asked
            # again: callers would wait twice as long.
            retry=Retry(NoBackoff(), 1, (redis.ConnectionError,)),
            driver_info=None,  # two requests at each connection to say how this library is called
        )
        # An option that redis:// does not have shows only when a connection is made.
        pool.make_connection()
    except (ValueError, TypeError, redis.RedisError) as error:
        raise ConfigError("the Redis URL is not one: write redis://host:6379/0") from error
    if path is not None:
        read_secret(path)
    where: dict[str, Any] = pool.connection_kwargs
    place = f"{where.get('host', 'localhost')}:{where.get('port', 6379)}"
    return redis.Redis(connection_pool=pool), place


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
        StoreReadOnlyError: it answers and takes no writes; a StoreFullError if its disk is full.
        ConfigError: this user may not do what is asked.
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
    except (redis.RedisError, UnicodeError) as error:  # the latter: no name of a host
        if is_disk_full(str(error)):
            raise StoreFullError(f"the disk of Redis at {place} is full: {error}") from error
        if refusal := _refusal(error):
            raise StoreReadOnlyError(f"Redis at {place} takes no writes: {refusal}") from error
        hangs = f" within {_SECONDS:g} s" if isinstance(error, redis.TimeoutError) else ""
        raise StoreUnavailableError(f"Redis at {place} does not answer{hangs}: {error}") from error


def _refusal(error: Exception) -> str:
    """Return why Redis takes no writes, in its words; empty if the error says nothing of that."""
    said = str(error).partition(_SCRIPT)[0].partition(". ")[0].removesuffix(".")
    for code, kind in _REFUSALS:
        if isinstance(error, kind):
            return f"{code} {said}"
    found = _REFUSAL.search(said)
    return found.group() if found else ""


class _PasswordFile(CredentialProvider):
    """Logs in with what the file says when a connection is made."""

    def __init__(self, user: str | None, path: Path) -> None:
        self._user = user
        self._path = path

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        """User and password; the password alone is the default user's.

        Raises:
            redis.AuthenticationError: the file is gone, and may come back.
        """
        try:
            password = read_secret(self._path)
        except ConfigError as error:
            raise redis.AuthenticationError(str(error)) from error
        return (password,) if self._user is None else (self._user, password)
