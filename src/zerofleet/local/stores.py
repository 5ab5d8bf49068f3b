"""The stores of a run, embedded in its data folder or outside, and commands that join them.

``Running`` describes what runs in a data folder now. A command joins it, or starts what it needs.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from zerofleet import __version__
from zerofleet.database import Database, check_database, migrate
from zerofleet.errors import ConfigError, StoreUnavailableError
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.local.data_folder import DataFolder, full_disk_named, read_json, write_json
from zerofleet.local.postgres import EmbeddedPostgres, ignore_libpq_environment
from zerofleet.local.valkey import EmbeddedValkey

_LOOK_SECONDS = 0.5
_PAUSE_SECONDS = 5.0

ROLES = ("owner", "worker", "trainer", "evaluator", "console", "visitor")

_START_SECONDS = 30.0


class Store(Protocol):
    """An embedded store; after a restart it listens at the same address."""

    def start(self) -> str:
        """Start, and return the URL."""
        ...

    def stop(self) -> None:
        """Stop cleanly."""
        ...

    def is_gone(self) -> bool:
        """Return whether it has died, or is ending because somebody else stopped it."""
        ...


class Keeper(threading.Thread):
    """The thread that starts a store, restarts it if it dies, and stops it.

    A child that dies with its parent (PR_SET_PDEATHSIG) dies with the *thread* that made it, so
    that thread must live as long as the store. With a thread for each store, both start at once.

    Args:
        name: name of the store, for a person.
        store: not started yet.
        say: called from this thread when the store has died.
    """

    def __init__(self, name: str, store: Store, say: Callable[[str], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._store = store
        self._say = say
        self._url: Future[str] = Future()
        self._leave = threading.Event()

    def run(self) -> None:
        """Keep the store running until ``stop``."""
        try:
            self._url.set_result(self._store.start())
        except BaseException as error:
            self._url.set_exception(error)
            return
        while not self._leave.wait(_LOOK_SECONDS):
            if self._store.is_gone():
                self._start_again()
        self._store.stop()

    def wait_started(self) -> str:
        """Return the store's URL; raise the error of its start."""
        return self._url.result()

    def stop(self) -> None:
        """Stop the store and wait until it has stopped."""
        self._leave.set()
        with contextlib.suppress(RuntimeError):  # it was never started
            self.join()

    def _start_again(self) -> None:
        self._say(f"{self.name} has ended; starting it again")
        try:
            self._store.stop()
            self._store.start()
        except Exception as error:  # only this thread starts the store, so it must not end
            self._say(f"{error}; trying again in {_PAUSE_SECONDS:g} s")
            self._leave.wait(_PAUSE_SECONDS)


@dataclass(frozen=True, slots=True)
class StoreUrls:
    """URLs of the stores: Postgres once for each role, then Redis."""

    database: dict[str, str]
    redis: str


def has_own_postgres(folder: DataFolder, database_url: str | None = None) -> bool:
    """Return whether a run uses the embedded database of its data folder.

    Args:
        database_url: an outside Postgres that was given for this start.

    Raises:
        ConfigError: the run's record is in another database than the given one.
    """
    return _Remembered(folder.root / "stores.json").database_url(database_url) is None


class Stores:
    """The stores of a data folder, running for the time of the block.

    Args:
        folder: data folder, held by the caller.
        database_url: an outside Postgres instead of the embedded one, with the owner's rights.
        redis_url: an outside Redis or Valkey.
        say: called, from another thread, when a store died and was restarted.

    Outside stores are saved in the folder, so that a run that began in one database does not
    continue in another by mistake.

    Raises:
        ConfigError: the run's record is in another database than the given one.
    """

    def __init__(
        self,
        folder: DataFolder,
        database_url: str | None = None,
        redis_url: str | None = None,
        *,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        remembered = _Remembered(folder.root / "stores.json")
        self._database_url = remembered.database_url(database_url)
        self._redis_url = remembered.redis_url(redis_url)
        self._remembered = remembered
        self._folder = folder
        self._say = say
        self._keepers: list[Keeper] = []

    def check(self, run: str) -> None:
        """Check that the stores can be used, without changing them or the data folder.

        Raises:
            ConfigError: the database belongs to a newer zerofleet, its address is not valid, or
                this user cannot make the embedded one.
            StoreUnavailableError: an outside store does not answer.
        """
        if self._database_url is not None:
            check_database(self._database_url)
        else:
            EmbeddedPostgres(self._folder.root / "postgres").check()
        if self._redis_url is not None:
            with contextlib.closing(Heartbeats(self._redis_url, run)) as heartbeats:
                heartbeats.read()

    def __enter__(self) -> Self:
        postgres = EmbeddedPostgres(self._folder.root / "postgres")
        valkey = EmbeddedValkey(self._folder.root / "valkey")
        if self._redis_url is None:
            self._keepers.append(Keeper("Valkey", valkey, self._say))
        if self._database_url is None:
            ignore_libpq_environment()  # before other threads copy the environment
            self._keepers.append(Keeper("Postgres", postgres, self._say))
        for keeper in self._keepers:
            keeper.start()
        try:
            for keeper in self._keepers:
                keeper.wait_started()
        except BaseException:
            self.__exit__()
            raise
        outside = self._database_url
        database = {role: outside or postgres.url(role) for role in ROLES}
        self.urls = StoreUrls(database, self._redis_url or valkey.file_url())
        return self

    def remember(self) -> None:
        """Save the given outside stores for the next start; call this once they answer."""
        self._remembered.save()

    def __exit__(self, *exception: object) -> None:
        for keeper in self._keepers:
            keeper.stop()
        self._keepers.clear()


class _Remembered:
    """The outside stores that a run uses; the file may hold a password, so its mode is 0600."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fresh = not path.exists()
        self._content: dict[str, Any] = {} if self._fresh else read_json(path)

    def database_url(self, given: str | None) -> str | None:
        """Return the run's database: the given one, or the one it began in.

        Raises:
            ConfigError: the run's record is elsewhere.
        """
        known = self._content.setdefault("database_url", given)
        if given is not None and given != known:
            where = "in the embedded Postgres" if known is None else "at another address"
            raise ConfigError(
                f"this run's record is {where}: leave --database-url out, or give another --data "
                f"(if the database has moved, edit {self._path})"
            )
        return known

    def redis_url(self, given: str | None) -> str | None:
        """Return the run's Redis; it may change, because everything in Redis can be rebuilt."""
        if given is not None:
            self._content["redis_url"] = given
        return self._content.setdefault("redis_url", None)

    def save(self) -> None:
        if self._fresh or read_json(self._path) != self._content:
            write_json(self._path, self._content)


@dataclass(frozen=True, slots=True)
class Running:
    """Where the stores and the services of a data folder listen.

    The file may hold an outside database's password, so only its owner can read it.
    """

    pid: int
    database_urls: dict[str, str]  # by role
    redis_url: str
    inference_address: str | None = None
    """Address of the inference service; None: the run is stopped, and only its stores are up."""
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
        """Announce it to other commands for the time of the block."""
        path = folder.root / "running.json"
        with full_disk_named(folder.root):
            write_json(path, asdict(self))
        try:
            yield
        finally:
            path.unlink(missing_ok=True)

    def goes_on(self, folder: DataFolder) -> bool:
        """Return whether it still runs, and was not replaced by a later start."""
        return folder.is_held() and running_in(folder) == self


@contextlib.contextmanager
def joined(
    folder: DataFolder, command: str, choose_page: Callable[[], str] | None = None
) -> Generator[Running]:
    """Yield the stores of a folder: the running ones, else started for the time of the block.

    Stores started here stay until the commands that joined in the meantime have ended, too. An
    embedded database of an older zerofleet is updated first.

    Args:
        command: name of the command, which other commands show.
        choose_page: returns the address of the dashboard that the command will serve; called only
            if the stores are started here.

    Raises:
        ConfigError: another command is starting or stopping there and does not become ready.
    """
    with folder.guest():
        if folder.is_held():
            running = _wait_announced(folder)
            if has_own_postgres(folder):
                ignore_libpq_environment()
            yield running
            return
    # Emptied until the folder is released: a command that arrives in between must find no guest.
    with contextlib.ExitStack() as emptied, folder.hold(command):
        page = None if choose_page is None else choose_page()
        with Stores(folder) as stores:
            # The database is a newer zerofleet's, or not embedded: the command itself reports that.
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
        owner_url: the database, with the owner's rights.

    Raises:
        ConfigError: a newer zerofleet has updated the database.
        StoreUnavailableError: the database is not embedded, and its owner has to update it.
    """
    with Database(owner_url, pool_size=1) as database:
        try:
            database.wait_ready(0.0)
        except StoreUnavailableError:
            if not (folder.root / "postgres").exists():  # other programs may use it
                raise
            sys.stderr.write(
                f"updating the database's tables and views to zerofleet {__version__}\n"
            )
            migrate(owner_url)


def _say_who_waits() -> None:
    sys.stderr.write("another command uses these stores: waiting for it (Ctrl-C stops them)\n")


def running_in(folder: DataFolder) -> Running | None:
    """Return the announcement of a folder's holder; None: nothing yet."""
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
