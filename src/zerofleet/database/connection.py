"""Connections to Postgres that never hang: addresses, a watchdog, and its errors as ours."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
import time
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import psycopg2
import psycopg2.extensions
import sqlalchemy
from psycopg2 import errorcodes
from psycopg2.extensions import make_dsn, parse_dsn
from sqlalchemy import Connection, Row, exc, text

from zerofleet import __version__
from zerofleet.database.schema import expected, read_schema_version
from zerofleet.errors import (
    ConfigError,
    IncompatibleModelError,
    StaleEpochError,
    StoreFullError,
    StoreLoginError,
    StoreReadOnlyError,
    StoreUnavailableError,
    ZerofleetError,
    is_disk_full,
    shared_memory_full,
)
from zerofleet.secrets.files import read_secret, split_password_file

_HIGHEST_PORT = 65535
_SCHEME = re.compile(r"^postgres(ql)?(\+\w+)?://")

_LOOK_SECONDS = 1.0

_CONNECT_SECONDS = 5
_STATEMENT_SECONDS = 30
_WATCHDOG_SECONDS = _STATEMENT_SECONDS + 5.0
_STALE_EPOCH = "ZF001"  # raised by the function check_fence
_FILES_GONE = "ZF002"  # raised by the function keep_files
_READY_POLL_SECONDS = 0.25
_LOGIN_SECONDS = 120.0  # `zerofleet migrate` makes roles and passwords while services start
_SETTINGS_MARK = "zerofleet.settings"

# Messages of Postgres, libpq and poolers that refuse a connection.
_NO_OPTIONS = re.compile(
    "unsupported startup parameter|startup parameter .* not supported|command.line options",
    re.IGNORECASE,
)
_NO_LOGIN = re.compile(
    "authentication failed|no password supplied|no pg_hba.conf entry|does not support SSL|"
    'certificate|channel binding|authentication method|^FATAL: +(role|database) ".*" does not|'
    "not permitted to log in|permission denied for database|is not currently accepting|"
    "definition of service|^invalid .* value:"
)
_DIRECT = (
    "zerofleet needs a direct connection, because it sets options for each session. Give the "
    "address of the Postgres server itself, not of a pooler such as PgBouncer or RDS Proxy"
)

_CLIENT_DEFAULTS = {
    "connect_timeout": _CONNECT_SECONDS,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "application_name": "zerofleet",
}
# No parallel plans: the queries are small, and the window relies on the order of rows.
_SERVER_DEFAULTS = (
    f"-c statement_timeout={_STATEMENT_SECONDS}s"
    " -c idle_in_transaction_session_timeout=60s -c jit=off -c timezone=UTC"
    f" -c max_parallel_workers_per_gather=0 -c {_SETTINGS_MARK}=on"
)


def libpq_url(url: str) -> str:
    """Return a URL for libpq's programs, from SQLAlchemy's or libpq's form."""
    return _SCHEME.sub("postgresql://", url)


def connection_parameters(url: str) -> dict[str, Any]:
    """Return libpq's parameters of a URL, with the current password of its ``password_file``.

    Raises:
        ConfigError: it is not a Postgres URL; the message does not repeat it, because it may hold a
            password. Or the file cannot be read.
    """
    bare, path = split_password_file(url)
    try:
        if not _SCHEME.match(bare):
            raise ValueError
        parameters = parse_dsn(libpq_url(bare))
    except (ValueError, psycopg2.Error) as error:
        raise ConfigError(
            "the database URL is not a Postgres URL: write postgresql://user@host:5432/name"
        ) from error
    for port in str(parameters.get("port", "")).split(","):
        if port and not (re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) <= _HIGHEST_PORT):
            raise ConfigError(f"the database URL has port {port[:40]!r}: give 1 to {_HIGHEST_PORT}")
    return parameters if path is None else {**parameters, "password": read_secret(path)}


def without_password(url: str) -> tuple[str, str | None]:
    """Return a connection string for libpq's programs, and separately the password, if any.

    Other users can see a program's arguments, so the password must be passed another way.

    Raises:
        ConfigError: it is not a Postgres URL.
    """
    parameters = connection_parameters(url)
    password = parameters.pop("password", None)
    return make_dsn(**parameters), password


def place(parameters: dict[str, Any]) -> str:
    """Return ``host:port`` of a server, for messages."""
    host = parameters.get("host") or parameters.get("hostaddr") or "localhost"
    return f"{host}:{parameters.get('port') or 5432}"


class Watchdog:
    """Cuts a connection that is in use for too long; its user gets an error and continues.

    Args:
        seconds: the longest use allowed.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadlines: dict[int, float] = {}  # by file descriptor
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def watch(self, descriptor: int) -> Generator[None]:
        """Watch a socket for the time of the block."""
        with self._lock:
            self._deadlines[descriptor] = time.monotonic() + self._seconds
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._deadlines.pop(descriptor, None)

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            with self._lock:  # held, so that no other thread closes the descriptor in the meantime
                now = time.monotonic()
                for descriptor, deadline in self._deadlines.items():
                    if now > deadline:
                        _cut(descriptor)


def _cut(descriptor: int) -> None:
    # A duplicate, because closing the socket object must not close the descriptor.
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        connection.shutdown(socket.SHUT_RDWR)


def connect(url: str) -> psycopg2.extensions.connection:
    """Return a psycopg2 connection with timeouts; the URL's parameters override our defaults."""
    parameters: dict[str, Any] = {**_CLIENT_DEFAULTS, **connection_parameters(url)}
    parameters["options"] = f"{_SERVER_DEFAULTS} {parameters.get('options', '')}".strip()
    return psycopg2.connect(**parameters)


class ConnectionPool:
    """A few connections to one database, made when first used and again after they broke.

    Args:
        url: URL of the database, SQLAlchemy's or libpq's. ``?password_file=`` (or libpq's
            ``passfile``) keeps the password out of it, and is read at each connection.
        pool_size: most connections; further callers wait for each other.
    """

    def __init__(self, url: str, *, pool_size: int = 2) -> None:
        self._place = place(connection_parameters(url))
        self._was_connected = False
        self._refused_since: float | None = None
        self._watchdog = Watchdog(_WATCHDOG_SECONDS)
        self._engine = sqlalchemy.create_engine(
            "postgresql+psycopg2://",
            creator=lambda: self._connect(url),
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=_WATCHDOG_SECONDS,
            hide_parameters=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()
        self._watchdog.close()

    def _connect(self, url: str) -> psycopg2.extensions.connection:
        try:
            connection = connect(url)
        except psycopg2.OperationalError as error:
            refusal = self._refusal(explain(error))
            if refusal is None:
                raise
            raise refusal from error
        except ConfigError as error:
            # The URL is right, but its password file is missing, and may come back.
            raise StoreUnavailableError(
                f"cannot log in to Postgres at {self._place}: {error}"
            ) from error
        self._was_connected, self._refused_since = True, None
        return connection

    def _refusal(self, reason: str) -> ZerofleetError | None:
        """Return the error for a connection that the server refuses; None if it may be down.

        Before the first connection a refusal is a mistake in the settings. Afterwards the caller
        may hold data, so it waits for the server to change.
        """
        if _NO_OPTIONS.search(reason):
            kind = StoreUnavailableError if self._was_connected else ConfigError
            return kind(f"the server at {self._place} refuses options: {reason}. {_DIRECT}")
        if not _NO_LOGIN.search(reason):
            return None
        now = time.monotonic()
        self._refused_since = self._refused_since or now
        is_lasting = not self._was_connected and now - self._refused_since >= _LOGIN_SECONDS
        kind = ConfigError if is_lasting else StoreLoginError
        return kind(
            f"Postgres at {self._place} refuses the login: {reason}: check the user, the password, "
            "the database and the TLS options of the URL"
        )

    def wait_ready(self, timeout: float) -> None:
        """Wait until Postgres answers and has the tables, functions and views of this version.

        Raises:
            StoreUnavailableError: not within ``timeout`` seconds; the message says what is missing.
            ConfigError: the database was made by a newer version, or by 0.1; or the server is a
                pooler that drops our settings, or refuses the login for two minutes.
        """
        deadline = time.monotonic() + timeout
        while True:
            try:
                self._check_schema()
            except StoreUnavailableError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_READY_POLL_SECONDS)
            else:
                return

    def _check_schema(self) -> None:
        with self._transaction() as connection:
            require_settings(connection, self._place)
            version = read_schema_version(connection, self._place)
        if version.revision != expected().revision:
            raise StoreUnavailableError(
                f"Postgres at {self._place} answers, but its tables are not made yet: "
                "run `zerofleet migrate`"
            )
        if version.is_newer:
            raise StoreUnavailableError(
                f"Postgres at {self._place} answers, but its functions and views belong to "
                f"zerofleet {version.zerofleet}, and this is {__version__}: update zerofleet"
            )
        if version.digest != expected().digest:
            raise StoreUnavailableError(
                f"Postgres at {self._place} answers, but its functions and views belong to "
                "another version of zerofleet: run `zerofleet migrate`"
            )

    def clock_ahead(self) -> timedelta:
        """How far this machine's clock is ahead of Postgres'; negative: behind."""
        before = datetime.now(UTC)
        [row] = self._rows("SELECT clock_timestamp() AS at")
        return before + (datetime.now(UTC) - before) / 2 - row.at

    @contextlib.contextmanager
    def _transaction(self) -> Generator[Connection]:
        """Run one transaction, committed at the end unless there is an error."""
        with self._our_errors(), self._engine.connect() as connection:
            raw: Any = connection.connection.dbapi_connection
            with self._watchdog.watch(raw.fileno()):
                yield connection
                connection.commit()

    def _rows(self, statement: str, **parameters: object) -> list[Row[Any]]:
        """Run one statement in its own transaction."""
        with self._transaction() as connection:
            return list(connection.execute(text(statement), parameters).all())

    def _run(self, statement: str, **parameters: object) -> int:
        """Run one statement without results; return the number of rows it wrote."""
        with self._transaction() as connection:
            return connection.execute(text(statement), parameters).rowcount

    @contextlib.contextmanager
    def _our_errors(self) -> Generator[None]:
        try:
            yield
        except exc.TimeoutError as error:
            raise StoreUnavailableError(
                f"no connection to Postgres at {self._place} became free in time"
            ) from error
        except exc.DBAPIError as error:
            translated = _translate(error.orig, self._place)
            if translated is None:
                raise
            raise translated from error
        except psycopg2.Error as error:  # from COPY, which SQLAlchemy does not know
            translated = _translate(error, self._place)
            if translated is None:
                raise
            raise translated from error


def require_settings(connection: Connection, where: str) -> None:
    """Check that the session has the settings that ``connect`` requests.

    Args:
        where: the server, for messages.

    Raises:
        ConfigError: a pooler has dropped them. It may also change sessions between statements.
    """
    if connection.scalar(text(f"SELECT current_setting('{_SETTINGS_MARK}', true)")) != "on":
        raise ConfigError(f"the server at {where} ignores options. {_DIRECT}")


def explain(error: BaseException) -> str:
    """Return the line with the cause from a message of Postgres or libpq.

    It is the first one, unless libpq tries several addresses and a later line comes from a server.
    """
    lines = str(error).strip().splitlines() or ["no reason given"]
    line = next((each for each in lines if "FATAL:" in each), lines[0])
    # libpq begins each attempt with the address
    line = re.sub("^connection to server (at|on) .*? failed: ", "", line)
    return line.removeprefix("ERROR:  ").strip()


def _translate(error: BaseException | None, where: str) -> ZerofleetError | None:
    if not isinstance(error, psycopg2.Error):
        return None
    code = error.pgcode
    if code == _STALE_EPOCH:
        return StaleEpochError(explain(error))
    if code == _FILES_GONE:
        return IncompatibleModelError(explain(error))
    if code == errorcodes.INSUFFICIENT_PRIVILEGE:
        return ConfigError(f"Postgres at {where}: {explain(error)}: connect as another role")
    if code == errorcodes.UNDEFINED_TABLE:
        return ConfigError(f"the database at {where} lacks our tables: run `zerofleet migrate`")
    if code == errorcodes.UNDEFINED_FUNCTION or "cache lookup failed" in str(error):
        # A migration replaces the functions of one version with another's. Data that a service has
        # not stored yet must survive it.
        return StoreUnavailableError(
            f"Postgres at {where}: {explain(error)}: its functions are being replaced, or belong "
            "to another version of zerofleet: waiting for `zerofleet migrate`"
        )
    if code == errorcodes.CHECK_VIOLATION and error.diag.constraint_name is None:
        # Not a table's constraint: rows were on their way to positions_default when their partition
        # was made. The same statement finds that partition when it is repeated.
        return StoreUnavailableError(f"Postgres at {where} made a partition: {explain(error)}")
    if (shared := shared_memory_full(str(error))) is not None:
        return StoreUnavailableError(f"Postgres at {where}: {explain(error)}: {shared}")
    if code == errorcodes.DISK_FULL or is_disk_full(str(error)):
        return StoreFullError(f"the disk of Postgres at {where} is full: {explain(error)}")
    if code == errorcodes.READ_ONLY_SQL_TRANSACTION:  # a standby, or a server set to read only
        return StoreReadOnlyError(f"Postgres at {where} takes no writes: {explain(error)}")
    if isinstance(error, (psycopg2.OperationalError, psycopg2.InterfaceError)):
        return StoreUnavailableError(f"Postgres at {where} does not answer: {explain(error)}")
    return None
