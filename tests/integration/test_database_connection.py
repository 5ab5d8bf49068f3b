"""A Postgres that is away, frozen, or not ours: one line that says so, and no secret in it."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psycopg2
import pytest
import redis
from sqlalchemy import text

from zerofleet.database import Database, connection, libpq_url
from zerofleet.errors import ConfigError, StoreFullError, StoreUnavailableError
from zerofleet.local.ports import free_port
from zerofleet.local.postgres import EmbeddedPostgres
from zerofleet.redis_connection import our_errors

T = TypeVar("T")
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
        os.kill(pid, signal.SIGSTOP)  # its kernel still answers, so TCP sees nothing wrong
        try:
            with pytest.raises(StoreUnavailableError):
                database.promotions("test")
            assert database.promotions("test") == []  # over a new connection
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
    # Two hundred at once against sixty places: some are told to come again, and all get through.
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
