"""Pages in Debian's Chromium, over a real service and real stores."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from zerofleet.config import load_run
from zerofleet.database import Database
from zerofleet.heartbeat import Heartbeats
from zerofleet.local.ports import free_port
from zerofleet.testing.fork_server import Fork, preload

preload("services.dashboard.service")

DEADLINE = 60.0
RUN = """
name = "shown"
game = "connect_four"
"""
OPTIONS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@dataclass
class Shown:
    """A dashboard, the stores that it reads, and the owner's way into them."""

    base: str
    process: Fork
    database: Database
    heartbeats: Heartbeats
    run_file: Path
    environment: dict[str, str]
    start: Callable[[], Fork]

    def query(self, statement: str, **parameters: object) -> list[tuple[object, ...]]:
        return [tuple(row) for row in self.database._rows(statement, **parameters)]


@dataclass
class Opened:
    """A page, with what the browser complained of and whom else it asked."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium here: apt-get install chromium")
    expect.set_options(timeout=1000 * DEADLINE)  # machines are busy
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(OPTIONS))
        yield browser
        browser.close()


@pytest.fixture
def shown(
    tmp_path: Path,
    database_url: str,
    role_url: Callable[[str], str],
    valkey_url: str,
) -> Iterator[Shown]:
    """A dashboard of the run ``shown``, whose tables are empty; it answers."""
    run_file = tmp_path / "run.toml"
    run_file.write_text(RUN)
    run = load_run(run_file)
    address = f"127.0.0.1:{free_port()}"
    environment = {
        "ZEROFLEET_DATABASE_URL": role_url("console"),
        "ZEROFLEET_REDIS_URL": valkey_url,
        "ZEROFLEET_DASHBOARD_ADDRESS": address,
        "ZEROFLEET_INFERENCE_ADDRESS": f"127.0.0.1:{free_port()}",
    }
    log = tmp_path / "dashboard.log"

    def start() -> Fork:
        process = Fork("services.dashboard", [run_file], environment, log)
        until(lambda: '"serving"' in process.said() or process.poll() is not None, process.said)
        assert process.poll() is None, process.said()
        return process

    with Database(database_url) as database:
        database.register_run(run)
        heartbeats = Heartbeats(valkey_url, run.name)
        process = start()
        opened = Shown(
            f"http://{address}", process, database, heartbeats, run_file, environment, start
        )
        yield opened
        opened.process.kill()
        opened.process.wait()
        heartbeats.close()


@pytest.fixture
def open_page(chromium: Browser, shown: Shown) -> Iterator[Callable[..., Opened]]:
    """``open_page(PATH, width=, dark=)``: in a window of its own."""
    contexts = []

    def opened(path: str, *, width: int = 1440, dark: bool = False) -> Opened:
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
        )
        contexts.append(context)
        found = Opened(context.new_page())

        def complained(message: ConsoleMessage) -> None:
            if message.type == "error":
                found.complaints.append(message.text)

        def asked(request: Request) -> None:
            address = urlsplit(request.url)
            ours = address.netloc == urlsplit(shown.base).netloc
            if not ours and address.scheme not in ("data", "blob"):
                found.foreign.append(request.url)

        found.page.on("console", complained)
        found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
        found.page.on("request", asked)
        found.page.goto(shown.base + path)
        return found

    yield opened
    for context in contexts:
        context.close()


def until(condition: Callable[[], object], said: Callable[[], str]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            raise subprocess.TimeoutExpired(said(), DEADLINE)
        time.sleep(0.05)
