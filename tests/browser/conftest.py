"""Fixtures for pages in Debian's Chromium, over a real service and real stores."""

import asyncio
import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from urllib.parse import urlsplit

import numpy as np
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.support.fork_server import Fork, preload
from zerofleet import games
from zerofleet.config import SearchSection, load_run
from zerofleet.database import Database, Promotion
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.local.processes import free_port
from zerofleet.prediction import FP32, ModelFile
from zerofleet.rpc.codec import RequestShape
from zerofleet.rpc.server import Server
from zerofleet.services.inference.backend import Backend
from zerofleet.services.inference.batcher import Batcher, BatchLimits
from zerofleet.services.inference.loaded_models import LoadedModel
from zerofleet.services.inference.model_player import ModelPlayer
from zerofleet.services.inference.served_models import ServedModels

preload("zerofleet.services.dashboard.service")

DEADLINE = 120.0
expect.set_options(timeout=1000 * DEADLINE)  # a busy machine is slow
SIMULATIONS = 60
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
    """A dashboard, its stores, and the owner's access to them."""

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
    """A page with the browser's complaints and its requests to other hosts."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)


class OneVersion:
    """A ``ModelSource`` with version 1, promoted."""

    def best(self) -> Promotion:
        return Promotion(1, 1, self.sha256(1))

    def promotions(self) -> list[Promotion]:
        return [self.best()]

    def sha256(self, version: int) -> str:
        return f"{version:064x}"

    def files(self, version: int) -> dict[str, ModelFile]:
        return {FP32: ModelFile(version, FP32, self.sha256(version))}

    def versions(self) -> list[int]:
        return [1]


class UndecidedSession:
    """A network without knowledge: a uniform policy and value 0."""

    def __init__(self, num_actions: int) -> None:
        self._num_actions = num_actions

    def run(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = len(observations)
        return np.zeros((rows, self._num_actions), np.float16), np.zeros(rows, np.float32)


@pytest.fixture
def inference_address(shown_game: str) -> Iterator[str]:
    """Address of a real server for the game, in a thread of the test."""
    ready, served = Event(), []

    async def serve() -> None:
        spec = games.spec(shown_game)
        session = UndecidedSession(spec.num_actions)

        def load(file: ModelFile) -> LoadedModel:
            return LoadedModel(file, (session,))

        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        models = ServedModels("shown", OneVersion(), load)
        async with Batcher(BatchLimits(64, 1024), models.mark_bad) as batcher:
            await models.refresh()
            shape = RequestShape(spec.observation_bytes, spec.num_actions, 64)
            section = SearchSection(num_simulations=SIMULATIONS, prove_results=False)
            player = ModelPlayer(shown_game, section, models, batcher)
            backend = Backend(models, batcher, shape)
            async with Server("127.0.0.1:0", inference=backend, player=player) as server:
                served.extend(
                    [f"127.0.0.1:{server.port}", lambda: loop.call_soon_threadsafe(stop.set)]
                )
                ready.set()
                await stop.wait()

    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(asyncio.run, serve())
        assert ready.wait(DEADLINE)
        try:
            yield served[0]
        finally:
            with contextlib.suppress(RuntimeError):
                served[1]()
            serving.result(DEADLINE)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("needs chromium (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(OPTIONS))
        yield browser
        browser.close()


@pytest.fixture
def shown_game() -> str:
    """The run's game."""
    return "connect_four"


@pytest.fixture
def shown(
    shown_game: str,
    inference_address: str,
    tmp_path: Path,
    database_url: str,
    role_url: Callable[[str], str],
    valkey_url: str,
) -> Iterator[Shown]:
    """A running dashboard of the run ``shown``, whose tables are empty."""
    run_file = tmp_path / "run.toml"
    run_file.write_text(f'name = "shown"\ngame = "{shown_game}"\n')
    run = load_run(run_file)
    address = f"127.0.0.1:{free_port()}"
    environment = {
        "ZEROFLEET_DATABASE_URL": role_url("console"),
        "ZEROFLEET_REDIS_URL": valkey_url,
        "ZEROFLEET_DASHBOARD_ADDRESS": address,
        "ZEROFLEET_INFERENCE_ADDRESS": inference_address,
    }
    log = tmp_path / "dashboard.log"

    def start() -> Fork:
        process = Fork("zerofleet.services.dashboard", [run_file], environment, log)
        until(lambda: '"serving"' in process.output() or process.poll() is not None, process.output)
        assert process.poll() is None, process.output()
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
    """Return ``open_page(PATH, width=, dark=)``, which opens a page in a window of its own."""
    contexts = []

    def opened(path: str, *, width: int = 1440, dark: bool = False) -> Opened:
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
        )
        context.set_default_timeout(DEADLINE * 1000)
        contexts.append(context)
        found = Opened(context.new_page())

        def complained(message: ConsoleMessage) -> None:
            if message.type == "error":
                found.complaints.append(message.text)

        def note_request(request: Request) -> None:
            address = urlsplit(request.url)
            ours = address.netloc == urlsplit(shown.base).netloc
            if not ours and address.scheme not in ("data", "blob"):
                found.foreign.append(request.url)

        found.page.on("console", complained)
        found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
        found.page.on("request", note_request)
        found.page.goto(shown.base + path)
        return found

    yield opened
    for context in contexts:
        context.close()


def until(condition: Callable[[], object], output: Callable[[], str]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            raise subprocess.TimeoutExpired(output(), DEADLINE)
        time.sleep(0.05)
