"""``zerofleet page`` over a run that is stopped: real processes over real, embedded stores."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg2
import pytest

from tests.integration.services.conftest import stopped_run
from tests.processes import wait_ended
from tests.support.fork_server import Fork, preload
from zerofleet.cli.page import programs_of
from zerofleet.config import load_run
from zerofleet.database import Database
from zerofleet.errors import StoreUnavailableError
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.local.data_folder import DataFolder
from zerofleet.local.stores import ROLES, Running, joined, running_in

preload("zerofleet.cli.page")

RUN_FILE = Path(__file__).resolve().parents[3] / "runs" / "tictactoe.toml"
DEADLINE = 120.0

pytestmark = pytest.mark.slow


@pytest.fixture
def data(store_folder: Path, tmp_path: Path) -> Iterator[DataFolder]:
    """A data folder of a run with one model."""
    root = store_folder / tmp_path.name
    yield stopped_run(root, RUN_FILE)
    shutil.rmtree(root)


class Zerofleet(Fork):
    """A command of ``zerofleet`` that is running; what it says is in ``said``."""

    def __init__(self, log: Path, *arguments: str) -> None:
        super().__init__("zerofleet.cli", arguments, {}, log)

    def wait_for_page(self) -> str:
        """Return the address of the page, once it is said."""
        deadline = time.monotonic() + DEADLINE
        while not (found := re.search(r"^dashboard: (http://\S+)$", self.output(), re.MULTILINE)):
            assert self.poll() is None, self.output()
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.05)
        return found[1]


@pytest.fixture
def zerofleet(tmp_path: Path) -> Iterator[Callable[..., Zerofleet]]:
    started: list[Zerofleet] = []

    def start(*arguments: str) -> Zerofleet:
        process = Zerofleet(tmp_path / f"{len(started)}.log", *arguments)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def title(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return re.findall("<title>(.*)</title>", answer.read().decode())[0]


def record(url: str) -> dict[str, str]:
    """Return a digest of the rows of each table."""
    with contextlib.closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        digests: dict[str, str] = {}
        for (name,) in cursor.fetchall():
            cursor.execute(f"SELECT md5(string_agg(t::text, '|' ORDER BY t::text)) FROM {name} t")
            [digests[name]] = cursor.fetchone()
        return digests


def files(folder: DataFolder) -> dict[Path, float]:
    """Return the files that the run has made, and when each was changed."""
    made = [folder.run_file, *folder.models.rglob("*")]
    return {path: path.stat().st_mtime for path in made if path.is_file()}


def test_the_page_shows_a_stopped_run_and_changes_nothing(
    data: DataFolder, zerofleet: Callable[..., Zerofleet]
) -> None:
    at = ("--data", str(data.root))
    with joined(data, "test") as running:
        before = record(running.database_urls["owner"]), files(data)

    page = zerofleet("page", *at)
    url = page.wait_for_page()
    assert url == f"http://127.0.0.1:{data.page_port()}"
    assert "updating" not in page.output()
    assert title(url) == "Run · tictactoe · zerofleet"

    status = zerofleet("status", *at, "--json")
    again = zerofleet("page", *at)
    elsewhere = zerofleet("page", *at, "--dashboard-port", "8079")
    up = zerofleet("up", str(RUN_FILE), *at)
    assert status.wait(DEADLINE) == 0, status.output()
    printed = json.loads(status.output())
    assert (printed["up"], printed["page"], printed["metrics"]) == (False, url, {})
    assert again.wait(DEADLINE) == 0, again.output()
    assert again.output() == f"dashboard: {url}\n"
    assert elsewhere.wait(DEADLINE) == 2
    assert f"the dashboard of this run is already at {url}" in elsewhere.output()
    assert up.wait(DEADLINE) == 2
    assert f"is in use by `zerofleet page` (process {page.pid}): stop it first" in up.output()

    shown = running_in(data)
    assert shown is not None
    with contextlib.closing(Heartbeats(shown.redis_url, data.run)) as heartbeats:
        deadline = time.monotonic() + DEADLINE
        while {"dashboard", "inference"} != {beat.service for beat in heartbeats.read()}:
            assert time.monotonic() < deadline, page.output()
            time.sleep(0.05)
    page.send_signal(signal.SIGINT)
    assert page.wait(DEADLINE) == 0, page.output()
    assert not data.is_held()
    with joined(data, "test") as running:
        assert (record(running.database_urls["owner"]), files(data)) == before


@pytest.mark.fleet
def test_the_page_keeps_its_port_updates_an_old_database_and_leaves_no_orphans(
    data: DataFolder, zerofleet: Callable[..., Zerofleet]
) -> None:
    at = ("--data", str(data.root))
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        own = other.getsockname()[1]
        data.keep_page_port(own)
        with joined(data, "test") as running, Database(running.database_urls["owner"]) as older:
            older._run("UPDATE definitions SET digest = 'x', version = '1.0.0'")
        page = zerofleet("page", *at)
        url = page.wait_for_page()
        assert "updating the database's tables and views" in page.output()
        assert f"port {own}, which this run's dashboard usually has, is in use" in page.output()
        assert not url.endswith(f":{own}")
        assert data.page_port() == own  # for the next time
    family = psutil.Process(page.pid).children(recursive=True)
    assert len(family) > 3
    page.kill()
    wait_ended(each.pid for each in family)

    page = zerofleet("page", *at)
    assert page.wait_for_page() == f"http://127.0.0.1:{own}"
    assert "updating" not in page.output()
    page.terminate()
    assert page.wait(DEADLINE) == 0, page.output()


def test_every_command_updates_the_database_of_a_stopped_run(
    data: DataFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    with joined(data, "test") as running, Database(running.database_urls["owner"]) as older:
        older._run("UPDATE definitions SET digest = 'x', version = '1.0.0'")
        older._run("DROP FUNCTION searches_per_day CASCADE")
    for message in ("updating the database's tables and views", ""):
        with joined(data, "test") as running, Database(running.database_urls["console"]) as now:
            now.wait_ready(0.0)
            now.kept(data.run)
        assert capsys.readouterr().err.startswith(message)


def test_without_a_model_the_page_only_shows(
    tmp_path: Path,
    database: Database,
    role_url: Callable[[str], str],
    valkey_url: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = DataFolder.for_run(tmp_path / "data", load_run(RUN_FILE))
    urls = {role: role_url(role) for role in ROLES}
    running = Running(os.getpid(), urls, valkey_url)
    programs = programs_of(folder, running, "127.0.0.1:1")
    assert [program.name for program in programs] == ["dashboard"]
    assert programs[0].environment["ZEROFLEET_DASHBOARD_RUN_STOPPED"] == "true"
    assert "nobody can play on the dashboard: the run 'tictactoe' has promoted no model" in (
        capsys.readouterr().err
    )
    database._run("UPDATE definitions SET digest = 'other'")
    with pytest.raises(StoreUnavailableError, match="run `zerofleet migrate`"):
        programs_of(folder, running, "127.0.0.1:1")  # not embedded: others may use it
    up = Running(os.getpid(), urls, valkey_url, "127.0.0.1:2")
    [dashboard] = programs_of(folder, up, "127.0.0.1:1")
    assert dashboard.environment["ZEROFLEET_DASHBOARD_RUN_STOPPED"] == ""
    assert dashboard.environment["ZEROFLEET_INFERENCE_ADDRESS"] == "127.0.0.1:2"
