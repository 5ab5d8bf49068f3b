"""Real stores for tests: one server of each kind for the session, fresh contents for each test."""

import asyncio
import ctypes
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Generator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis
from hypothesis import HealthCheck, settings

from tests.missing import skipped_line
from tests.support.databases import DatabaseTemplate
from zerofleet.config import run_from_values
from zerofleet.database import Database
from zerofleet.local.postgres import EmbeddedPostgres
from zerofleet.local.valkey import EmbeddedValkey

# A shell may have settings of another fleet, a bucket or a database, a proxy, or colours.
_OF_A_SHELL = re.compile(
    "ZEROFLEET_(?!ORACLE_)|AWS_|PG|(?i:[a-z]+_proxy$)|COLUMNS$|LINES$|NO_COLOR$|FORCE_COLOR$"
)
for _name in [name for name in os.environ if _OF_A_SHELL.match(name)]:
    del os.environ[_name]

# Some tests import onnxruntime themselves, perhaps before zerofleet.models.runtime does.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

# Several tests compute at a time: threads of one that wait for each other only take from the rest.
# Processes that tests start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Orphans of tests become our children, and we collect none: they stay zombies. Otherwise process 1
# decides that, which collects them on most machines and does not in many containers.
_PR_SET_CHILD_SUBREAPER = 36
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)

# Root's Postgres runs as nobody, who has to reach the folders of the tests.
if os.geteuid() == 0:
    os.umask(0o022)

# How long an example takes says how busy the machine is.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

# Nothing here has to survive a crash of the machine; a killed server recovers all the same.
# Autovacuum locks tables at moments that no test chooses. On a slow machine it takes longer than
# what makes and drops partitions waits for a lock.
FAST = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "autovacuum": "off",
}


ENOUGH_BYTES = 2 << 30


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """Say at the end what was skipped, and how to have it."""
    yield
    if line := skipped_line(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(line, yellow=True)


@pytest.fixture(scope="session")
def store_folder() -> Iterator[Path]:
    """A folder that the servers' user may enter, as pytest's own folders are not."""
    with tempfile.TemporaryDirectory(prefix="zerofleet-tests-", dir=_memory()) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="session")
def postgres(store_folder: Path) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(store_folder / "postgres", FAST) as server:
        yield server


@pytest.fixture(scope="session")
def database_template(postgres: EmbeddedPostgres) -> DatabaseTemplate:
    admin_url = postgres.url("superuser", "postgres")
    return DatabaseTemplate(admin_url, postgres.url("owner", "template_of_tests"))


@pytest.fixture
def database_url(database_template: DatabaseTemplate) -> Iterator[str]:
    """The owner's URL of a fresh database with all tables."""
    with database_template.copy() as url:
        yield url


@pytest.fixture
def role_url(postgres: EmbeddedPostgres, database_url: str) -> Callable[[str], str]:
    """The URL of the test's database for ``worker``, ``trainer``, ``evaluator``, ``console``."""
    name = urlsplit(database_url).path.lstrip("/")
    return lambda role: postgres.url(role, name)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A fresh database, as its owner, with the run ``test`` of tic-tac-toe."""
    with Database(database_url) as opened:
        opened.register_run(run_from_values({"name": "test", "game": {"name": "tic_tac_toe"}}))
        yield opened


@pytest.fixture(scope="session")
def valkey(store_folder: Path) -> Iterator[EmbeddedValkey]:
    with EmbeddedValkey(store_folder / "valkey", {"appendonly": "no"}) as server:
        yield server


@pytest.fixture
def valkey_url(valkey: EmbeddedValkey) -> str:
    """An empty Valkey."""
    with redis.Redis.from_url(valkey.url()) as client:
        client.flushall()
    return valkey.url()


def _memory() -> Path | None:
    """A file system in memory, where there is room: copying databases is mostly writing files."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > ENOUGH_BYTES
    return memory if roomy else None


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    """Poll until a condition holds, with a deadline."""

    async def poll(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(120):
            while not condition():  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.005)

    return poll
