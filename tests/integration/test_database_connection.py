"""A Postgres that is down, frozen or foreign: the error is one line and contains no secret."""

import contextlib
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import psycopg2
import pytest
import redis
from sqlalchemy import text

from zerofleet.database import Database, check_database, connection, libpq_url
from zerofleet.errors import (
    ConfigError,
    StoreFullError,
    StoreLoginError,
    StoreUnavailableError,
)
from zerofleet.local.postgres import EmbeddedPostgres
from zerofleet.local.processes import free_port
from zerofleet.redis_connection import our_errors
from zerofleet.waiting import awaited

T = TypeVar("T")
POOLERS = (
    "unsupported startup parameter: options",  # PgBouncer, before and after 1.20
    "unsupported startup parameter in options: statement_timeout",
    "Feature not supported: RDS Proxy currently doesn't support command-line options.",
)
CANARY = "canary-7f3a"


def one_line(error: BaseException) -> str:
    message = str(error)
    assert "\n" not in message
    assert CANARY not in message
    return message


def test_a_full_disk_is_told_from_a_server_that_is_away(database: Database) -> None:
    raise_it = "DO $$ BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END $$"
    with pytest.raises(StoreFullError, match=r"the disk of Postgres at .* is full: could not e"):
        database._run(raise_it)
    refused = "MISCONF Errors writing to the AOF file: No space left on device"
    full = pytest.raises(StoreFullError, match="the disk of Redis at h:1 is full: MISCONF")
    with full, our_errors("h:1"):
        raise redis.ResponseError(refused)


def test_an_unreachable_server_is_named() -> None:
    port = free_port()
    with (
        Database(f"postgresql://user:{CANARY}@127.0.0.1:{port}/name") as database,
        pytest.raises(StoreUnavailableError) as caught,
    ):
        database.promotions("test")
    expected = f"Postgres at 127.0.0.1:{port} does not answer: Connection refused"
    assert one_line(caught.value) == expected
    with Database(f"postgresql://127.0.0.1:{port}/name") as database:
        start = time.monotonic()
        with pytest.raises(StoreUnavailableError):
            database.wait_ready(0.5)
        assert time.monotonic() - start >= 0.5


def test_a_wrong_password_is_not_repeated(database_url: str) -> None:
    place = database_url.split("@")[1].split("?")[0]
    with (
        Database(f"postgresql://zerofleet:{CANARY}@{place}") as database,
        pytest.raises(StoreUnavailableError) as caught,
    ):
        database.promotions("test")
    assert "password authentication failed" in one_line(caught.value)


@contextlib.contextmanager
def pooler(url: str, refusal: str = "") -> Iterator[str]:
    """A proxy for Postgres that refuses startup options, or drops them as some poolers do."""
    host, port = url.split("@")[1].split("/")[0].split(":")

    def serve(client: socket.socket) -> None:
        with client, socket.create_connection((host, int(port))) as server:
            size = int.from_bytes(client.recv(4, socket.MSG_WAITALL))
            content = client.recv(size - 4, socket.MSG_WAITALL)
            names = content[4:].split(b"\0")
            at = names.index(b"options")
            if refusal:
                fields = b"SFATAL\0C08P01\0M" + refusal.encode() + b"\0\0"
                client.sendall(b"E" + (len(fields) + 4).to_bytes(4) + fields)
                return
            whole = content[:4] + b"\0".join(names[:at] + names[at + 2 :])
            server.sendall((len(whole) + 4).to_bytes(4) + whole)
            while ready := select.select([client, server], [], [])[0]:
                if not (some := ready[0].recv(65_536)):
                    return
                (server if ready[0] is client else client).sendall(some)

    def accept(listener: socket.socket) -> None:
        with contextlib.suppress(OSError), ThreadPoolExecutor() as threads:
            while True:
                threads.submit(serve, listener.accept()[0])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, args=(listener,))
        thread.start()
        yield url.replace(f":{port}/", f":{listener.getsockname()[1]}/")
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize("refusal", [*POOLERS, ""])
def test_a_pooler_is_named_and_not_waited_for(database_url: str, refusal: str) -> None:
    with pooler(database_url, refusal) as url, Database(url) as database:
        for use in (lambda: database.wait_ready(60.0), lambda: check_database(url)):
            with pytest.raises(ConfigError, match="the Postgres server itself, not of a pooler"):
                use()


def test_a_login_that_is_refused_is_waited_for_and_then_the_end(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, _, place = database_url.removeprefix("postgresql://").partition("@")
    missing = f"postgresql://{user}@{place.replace('/test_', '/no_such_')}"
    for url, reason in (
        (f"postgresql://{user}:{CANARY}@{place.split('?')[0]}", "password authentication failed"),
        (missing, "does not exist"),
        (database_url.replace("sslmode=disable", "sslmode=require"), "does not support SSL"),
    ):
        with Database(url) as database:
            with pytest.raises(StoreLoginError, match=reason) as caught:
                database.wait_ready(0.0)
            assert awaited(caught.value) == "Postgres to accept the login"
            monkeypatch.setattr(connection, "_LOGIN_SECONDS", 0.0)
            with pytest.raises(ConfigError, match=f"{reason}.*check the user, the password"):
                database.wait_ready(60.0)
            monkeypatch.undo()


def test_a_login_that_worked_is_waited_for(postgres: EmbeddedPostgres, database_url: str) -> None:
    """A password changes in Postgres shortly before or after it changes in the file."""
    name = urlsplit(database_url).path.removeprefix("/")
    with Database(postgres.url("console", name)) as database:
        database._rows("SELECT 1")
        database._engine.dispose()
        with contextlib.closing(psycopg2.connect(postgres.url("superuser", "postgres"))) as admin:
            admin.autocommit = True
            admin.cursor().execute("ALTER ROLE zerofleet_console NOLOGIN")
            try:
                with pytest.raises(StoreLoginError, match="not permitted to log in"):
                    database._rows("SELECT 1")
            finally:
                admin.cursor().execute("ALTER ROLE zerofleet_console LOGIN")
        database._rows("SELECT 1")


def test_the_line_with_the_cause_is_shown() -> None:
    several = (
        'connection to server at "localhost" (::1), port 5432 failed: Connection refused\n'
        "\tIs the server running on that host and accepting TCP/IP connections?\n"
        'connection to server at "localhost" (127.0.0.1), port 5432 failed: FATAL:  no such user'
    )
    assert connection.explain(psycopg2.OperationalError(several)) == "FATAL:  no such user"
    method = (
        'connection to server at "h", port 1 failed: authentication method requirement "password" '
        "failed: server requested SASL authentication"
    )
    assert connection.explain(psycopg2.OperationalError(method)).startswith("authentication method")


def test_full_shared_memory_is_told_from_a_full_disk(database: Database) -> None:
    raise_it = (
        'DO $$ BEGIN RAISE \'could not resize shared memory segment "/PostgreSQL.1" to 8388608 '
        "bytes: No space left on device' USING ERRCODE = 'disk_full'; END $$"
    )
    with pytest.raises(StoreUnavailableError, match=r"make /dev/shm larger") as caught:
        database._run(raise_it)
    assert not isinstance(caught.value, StoreFullError)


@pytest.mark.parametrize(
    "url", [f"mysql://u:{CANARY}@h/d", f"postgresql://u:{CANARY}@h:port/d?x=y", CANARY, ""]
)
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Database(url)
    assert "write postgresql://user@host:5432/name" in one_line(caught.value)


def test_sqlalchemys_urls_are_understood(database_url: str) -> None:
    url = database_url.replace("postgresql://", "postgresql+psycopg2://")
    assert libpq_url(url) == database_url
    with Database(url) as database:
        assert database.promotions("test") == []


def test_a_statement_that_takes_too_long_is_given_up(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_SERVER_DEFAULTS", "-c statement_timeout=100ms")
    with (
        Database(database_url) as database,
        pytest.raises(StoreUnavailableError, match="canceling statement due to statement timeout"),
        database._transaction() as opened,
    ):
        opened.execute(text("SELECT pg_sleep(20)"))


@pytest.mark.slow
def test_a_frozen_server_holds_nobody(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_WATCHDOG_SECONDS", 0.5)
    with Database(database_url) as database:
        with database._transaction() as opened:
            pid = opened.execute(text("SELECT pg_backend_pid()")).scalar_one()
        os.kill(pid, signal.SIGSTOP)  # its kernel still answers, so TCP detects no failure
        try:
            with pytest.raises(StoreUnavailableError):
                database.promotions("test")
            # A new connection is used; a slow machine may need longer than the watchdog's timeout.
            assert _patiently(lambda: database.promotions("test")) == []
        finally:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.slow
def test_a_server_that_comes_back_is_used_again(store_folder: Path) -> None:
    server = EmbeddedPostgres(store_folder / "comes-back", {"fsync": "off"})
    url = server.start()
    port = server.port
    with Database(url) as database, pytest.MonkeyPatch.context() as patch:
        patch.setattr("zerofleet.local.postgres.free_port", lambda: port)
        with database._transaction() as opened:
            opened.execute(text("CREATE TABLE t AS SELECT 1 AS a"))
        server.stop()
        for _ in range(3):
            with pytest.raises(StoreUnavailableError):
                database._rows("SELECT a FROM t")
        server.start()
        assert _patiently(lambda: database._rows("SELECT a FROM t")) == [(1,)]
    server.stop()


def _patiently(ask: Callable[[], T]) -> T:
    deadline = time.monotonic() + 120
    while True:
        try:
            return ask()
        except StoreUnavailableError:
            assert time.monotonic() < deadline


@pytest.mark.slow
def test_more_callers_than_a_server_has_room_for(database_url: str) -> None:
    # Two hundred callers want sixty connections: some must retry, and all succeed.
    done = []

    def ask() -> None:
        with Database(database_url, pool_size=1) as database:
            done.append(_patiently(lambda: database.promotions("test")))

    threads = [threading.Thread(target=ask) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [[]] * 100


def test_a_connection_is_bounded_in_every_way(database_url: str) -> None:
    opened = connection.connect(database_url)
    with opened.cursor() as cursor:
        for setting, expected in {
            "statement_timeout": "30s",
            "idle_in_transaction_session_timeout": "1min",
            "jit": "off",
            "application_name": "zerofleet",
        }.items():
            cursor.execute(f"SHOW {setting}")
            assert cursor.fetchone() == (expected,)
    assert opened.get_dsn_parameters()["tcp_user_timeout"] == "20000"
    opened.close()
    opened = connection.connect(
        f"{database_url}&application_name=mine&options=-c%20statement_timeout%3D1s"
    )
    assert isinstance(opened, psycopg2.extensions.connection)
    with opened.cursor() as cursor:
        cursor.execute("SELECT current_setting('statement_timeout'), current_setting('jit')")
        assert cursor.fetchone() == ("1s", "off")
    opened.close()
