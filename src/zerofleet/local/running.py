"""What runs in a data folder now, and how a command joins it or runs what it needs for a while."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Self

from zerofleet import __version__
from zerofleet.database import Database, migrate
from zerofleet.errors import ConfigError, StoreUnavailableError
from zerofleet.local.data_folder import DataFolder, full_disk_named, read_json, write_json
from zerofleet.local.stores import Stores

_START_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Running:
    """Where the stores and the services of a data folder listen.

    The file may hold an outside database's password, so only its owner can read it.
    """

    pid: int
    database_urls: dict[str, str]  # by role
    redis_url: str
    inference_address: str | None = None
    """None: the run is stopped, and only its stores are up."""
    page_address: str | None = None
    metrics_ports: dict[str, int] = field(default_factory=dict[str, int])  # by program

    @classmethod
    def of(
        cls,
        stores: Stores,
        inference_address: str | None = None,
        page_address: str | None = None,
        metrics_ports: Mapping[str, int] | None = None,
    ) -> Self:
        """Describe the stores and services of this process."""
        urls, ports = stores.urls, dict(metrics_ports or {})
        return cls(os.getpid(), urls.database, urls.redis, inference_address, page_address, ports)

    @contextlib.contextmanager
    def announced(self, folder: DataFolder) -> Generator[None]:
        """Let other commands find it while this is entered."""
        path = folder.root / "running.json"
        with full_disk_named(folder.root):
            write_json(path, asdict(self))
        try:
            yield
        finally:
            path.unlink(missing_ok=True)

    def goes_on(self, folder: DataFolder) -> bool:
        """Whether it still runs, and nothing that was started later in its place."""
        return folder.is_held() and running_in(folder) == self


@contextlib.contextmanager
def joined(
    folder: DataFolder, command: str, choose_page: Callable[[], str] | None = None
) -> Generator[Running]:
    """The stores of a folder: those that run already, else started for the time of this block.

    Stores that were started here stay until the commands that joined meanwhile have ended, too.
    An embedded database of an older zerofleet is updated first.

    Args:
        folder: of the run.
        command: its name, which other commands show.
        choose_page: returns the address of the page that the command will serve; called only if
            the stores are started here.

    Raises:
        ConfigError: another command is starting or stopping there and does not get ready.
    """
    with folder.guest():
        if folder.is_held():
            yield _wait_announced(folder)
            return
    # Emptied until the folder is let go: who comes meanwhile must find nobody in it.
    with contextlib.ExitStack() as emptied, folder.hold(command):
        page = None if choose_page is None else choose_page()
        with Stores(folder) as stores:
            # A newer zerofleet's, or not embedded: the command says so.
            with contextlib.suppress(ConfigError, StoreUnavailableError):
                update_database(folder, stores.urls.database["owner"])
            running = Running.of(stores, page_address=page)
            with running.announced(folder):
                try:
                    yield running
                finally:
                    emptied.enter_context(folder.emptied(_say_who_waits))


def update_database(folder: DataFolder, owner_url: str) -> None:
    """Bring an embedded database of an older zerofleet to this version's tables and views.

    Args:
        folder: of the run.
        owner_url: the database, with the owner's rights.

    Raises:
        ConfigError: a newer zerofleet has updated the database.
        StoreUnavailableError: the database is not embedded, and its owner has to update it.
    """
    with Database(owner_url, pool_size=1) as database:
        try:
            database.wait_ready(0.0)
        except StoreUnavailableError:
            if not (folder.root / "postgres").exists():  # others may use it
                raise
            sys.stderr.write(
                f"updating the tables and views of this run to those of zerofleet {__version__}\n"
            )
            migrate(owner_url)


def _say_who_waits() -> None:
    sys.stderr.write("another command uses these stores: waiting for it (Ctrl-C stops them)\n")


def running_in(folder: DataFolder) -> Running | None:
    """What the holder of a folder has announced; None: nothing yet."""
    with contextlib.suppress(ConfigError, TypeError):
        running = Running(**read_json(folder.root / "running.json"))
        if running.pid == folder.holder_pid():
            return running
    return None


def _wait_announced(folder: DataFolder) -> Running:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if (running := running_in(folder)) is not None:
            return running
        time.sleep(0.1)
    raise ConfigError(f"{folder.root} is starting or stopping and does not get ready: try again")
