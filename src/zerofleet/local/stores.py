"""Postgres and Redis for one run: embedded ones of its data folder, or others that are named."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from zerofleet.database import check_database
from zerofleet.errors import ConfigError
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.local.data_folder import DataFolder, read_json, write_json
from zerofleet.local.keeper import Keeper
from zerofleet.local.postgres import EmbeddedPostgres, ignore_libpq_environment
from zerofleet.local.valkey import EmbeddedValkey

ROLES = ("owner", "worker", "trainer", "evaluator", "console", "visitor")


@dataclass(frozen=True, slots=True)
class StoreUrls:
    """Where the stores are: Postgres once for each role, then Redis."""

    database: dict[str, str]
    redis: str


def has_own_postgres(folder: DataFolder, database_url: str | None = None) -> bool:
    """Return whether a run uses the embedded database of its data folder.

    Args:
        folder: of the run.
        database_url: an outside Postgres that was named for this start.

    Raises:
        ConfigError: the run's record is in another database than the given one.
    """
    return _Remembered(folder.root / "stores.json").database_url(database_url) is None


def _say_nothing(line: str) -> None:
    del line


class Stores:
    """The stores of a data folder, running while this is entered.

    Args:
        folder: held by the caller.
        database_url: an outside Postgres instead of the embedded one, with the owner's rights.
        redis_url: an outside Redis or Valkey.
        say: called, from another thread, when a store died and was started again.

    Outside stores are remembered in the folder, so that a run that began in one database does not
    go on in another by mistake.

    Raises:
        ConfigError: the run's record is in another database than the given one.
    """

    def __init__(
        self,
        folder: DataFolder,
        database_url: str | None = None,
        redis_url: str | None = None,
        *,
        say: Callable[[str], None] = _say_nothing,
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
            ConfigError: the database is one of a newer zerofleet, its address is not valid, or this
                user cannot make the embedded one.
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
        """Note which outside stores were named, for the next start; call it once they answer."""
        self._remembered.save()

    def __exit__(self, *exception: object) -> None:
        for keeper in self._keepers:
            keeper.stop()
        self._keepers.clear()


class _Remembered:
    """Which outside stores the run of a folder uses; the file may hold a password: mode 0600."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fresh = not path.exists()
        self._content: dict[str, Any] = {} if self._fresh else read_json(path)

    def database_url(self, given: str | None) -> str | None:
        """The run's database: the one given, or the one it began in.

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
        """The run's Redis; it may change, as all that Redis holds can be rebuilt."""
        if given is not None:
            self._content["redis_url"] = given
        return self._content.setdefault("redis_url", None)

    def save(self) -> None:
        if self._fresh or read_json(self._path) != self._content:
            write_json(self._path, self._content)
