"""The stores of a data folder: started together, kept running, found by other commands."""

import contextlib
import os
import pwd
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg2
import pytest

from zerofleet.config import load_run
from zerofleet.database import Database, migrate
from zerofleet.errors import ConfigError, StoreUnavailableError
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.local.data_folder import DataFolder
from zerofleet.local.postgres import EmbeddedPostgres
from zerofleet.local.stores import ROLES, Running, Stores, joined

RUN = load_run(Path(__file__).parents[2] / "runs" / "tictactoe.toml")

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(store_folder: Path, tmp_path: Path) -> Iterator[DataFolder]:
    """One that Postgres' user may enter."""
    root = store_folder / tmp_path.name
    yield DataFolder.for_run(root, RUN)
    shutil.rmtree(root)


def test_a_command_joins_what_runs_or_runs_it(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with folder.hold("up"), Stores(folder) as stores:
        migrate(stores.urls.database["owner"])
        assert tuple(stores.urls.database) == ROLES
        announced = Running.of(stores, "127.0.0.1:1")
        monkeypatch.setenv("PGSERVICE", "of-another-database")
        with announced.announced(folder), joined(folder, "status") as running:
            assert running == announced
            psycopg2.connect(running.database_urls["console"]).close()
            assert (folder.root / "running.json").stat().st_mode & 0o777 == 0o600
    with joined(folder, "status") as running:
        assert running.inference_address is None
        assert folder.is_held()
        with Database(running.database_urls["console"]) as database:
            assert database.summary(RUN.name).games == 0
    assert not folder.is_held()
    assert not (folder.root / "running.json").exists()


def test_a_user_without_a_name_is_refused_before_a_store_starts(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def has_no_name(uid: int) -> None:
        raise KeyError(uid)

    before = sorted(folder.root.rglob("*"))
    monkeypatch.setattr(pwd, "getpwuid", has_no_name)
    with pytest.raises(ConfigError, match="has no name here"):
        Stores(folder).check(RUN.name)
    assert sorted(folder.root.rglob("*")) == before


def test_stores_stay_until_the_last_who_joined_has_ended(
    folder: DataFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.ExitStack() as host, ThreadPoolExecutor(1) as other:
        host.enter_context(joined(folder, "sql"))
        with joined(folder, "exam") as running:
            leaving = other.submit(host.close)
            deadline = time.monotonic() + 120
            while "waiting for it" not in capsys.readouterr().err:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            psycopg2.connect(running.database_urls["owner"]).close()
        leaving.result(timeout=120)
    assert not folder.is_held()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_stores_that_end_come_back_in_the_same_place(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    started: list[EmbeddedPostgres] = []
    start = EmbeddedPostgres.start

    def remember(self: EmbeddedPostgres) -> str:
        started.append(self)
        return start(self)

    monkeypatch.setattr(EmbeddedPostgres, "start", remember)
    said: list[str] = []
    with folder.hold("up"), Stores(folder, say=said.append) as stores:
        migrate(stores.urls.database["owner"])
        assert started[0].process is not None
        # At SIGTERM Postgres waits for who is connected, and refuses all others meanwhile.
        connected = psycopg2.connect(stores.urls.database["console"])
        os.kill(started[0].process.pid, how)
        with contextlib.closing(connected), Database(stores.urls.database["console"]) as database:
            deadline = time.monotonic() + 120
            while True:
                try:
                    database.summary(RUN.name)
                except StoreUnavailableError:
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
                else:
                    if said:
                        break
        assert said == ["Postgres has ended; starting it again"]
        Heartbeats(stores.urls.redis, RUN.name).read()
        # It goes into the environment of every service.
        password = (folder.root / "valkey" / "password").read_text()
        assert password not in stores.urls.redis
