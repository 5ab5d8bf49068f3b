"""What the pages read: Postgres, the heartbeats in Redis, and the inference service.

Nothing is written. Each source says since when it is away, and is back as soon as it answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import time
from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from sqlalchemy import Connection, Row, text

from zerofleet.client import AsyncPlayer
from zerofleet.config import RunConfig, run_from_values
from zerofleet.database.connection import ConnectionPool
from zerofleet.errors import (
    ConfigError,
    InferenceUnavailableError,
    StoreUnavailableError,
    ZerofleetError,
)
from zerofleet.fleet.heartbeat import Heartbeat, HeartbeatHistory, Heartbeats, ServiceHistory
from zerofleet.redis_connection import UP, RedisState
from zerofleet.rpc.credentials import client_credentials
from zerofleet.search_configs import served_simulations
from zerofleet.services.dashboard.settings import DashboardSettings
from zerofleet.services.dashboard.visitor_player import VisitorPlayer
from zerofleet.services.dashboard.visitor_queries import VisitorQueries
from zerofleet.services.dashboard.visitors import Allowance, Visitor

_CONNECTIONS = 6  # of the 20 that the role has
_STATEMENT_SECONDS = 10
_MOST_RUNS = 100
_INFERENCE = "Inference"

_RUNS = f"SELECT name, game FROM runs ORDER BY created_at DESC LIMIT {_MOST_RUNS}"
_RUN = "SELECT name, game, config FROM runs WHERE name = :run"


@dataclass(frozen=True, slots=True)
class Away:
    """A source that is not up, or a database that has not this version's tables and views."""

    name: str
    since: datetime
    why: str
    is_half_up: bool = False
    """Whether it answers and takes no writes."""

    @property
    def words(self) -> str:
        """For the page."""
        if self.is_half_up:
            return f"{self.name} has been half up since {self.since:%H:%M:%S} UTC: {self.why}"
        return f"{self.name} has been unavailable since {self.since:%H:%M:%S} UTC: {self.why}"


@dataclass(frozen=True, slots=True)
class ShownRun:
    """A run of the database."""

    name: str
    game: str
    config: RunConfig | None
    """None: it was stored by a version of zerofleet that knew other keys."""


class ReadOnlyPool(ConnectionPool):
    """Connections whose transactions write nothing and end in seconds."""

    _is_checked = False

    @contextlib.contextmanager
    def reading(self, seconds: int = _STATEMENT_SECONDS) -> Generator[Connection]:
        """A read-only transaction, each of whose statements may take this long.

        Raises:
            StoreUnavailableError: Postgres does not answer, took longer, or has the tables and
                views of another version.
        """
        if not self._is_checked:
            try:
                self.wait_ready(timeout=0)
            except ConfigError as error:  # of a newer version: until it is updated or put back
                raise StoreUnavailableError(str(error)) from error
            self._is_checked = True
        with self._transaction() as connection:
            connection.exec_driver_sql(
                f"SET TRANSACTION READ ONLY; SET LOCAL statement_timeout = '{seconds:d}s'"
            )
            yield connection


class Sources:
    """All that pages read; for ``async with``, in the service's event loop.

    Args:
        run: of the service's run file: what is shown where no other run is asked for.
        settings: where the stores and the inference service are.

    Raises:
        ConfigError: an address is not valid.
    """

    def __init__(self, run: RunConfig, settings: DashboardSettings) -> None:
        self.run = ShownRun(run.name, run.game.name, run)
        self.postgres = ReadOnlyPool(settings.database_url, pool_size=_CONNECTIONS)
        self.queries = VisitorQueries(settings.visitor_database_url or settings.database_url)
        """Those that visitors write."""
        self.run_is_stopped = settings.dashboard_run_stopped
        """Whether the service's own run is stopped and only shown."""
        self._redis_url = settings.redis_url
        self._heartbeats: dict[str, Heartbeats] = {run.name: Heartbeats(self._redis_url, run.name)}
        self._histories: dict[str, HeartbeatHistory] = {}
        self._player = AsyncPlayer(
            settings.inference_address,
            run=run.name,
            timeout=_STATEMENT_SECONDS,
            **client_credentials(settings),
        )
        self._everybody = Allowance(
            settings.dashboard_all_simulations,
            searches=settings.dashboard_searches,
            whose="all visitors together have",
        )
        self._num_simulations = served_simulations(run)
        self._away: dict[str, Away] = {}

    async def __aenter__(self) -> Self:
        await self._player.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._player.__aexit__(None, None, None)
        for reader in (*self._heartbeats.values(), *self._histories.values()):
            reader.close()
        self.queries.close()
        self.postgres.close()

    visitor: Visitor
    """Who looks at the page."""
    player: VisitorPlayer
    """Asks the service's own run, as the visitor of a page may; other runs have their own
    inference services."""

    def of(self, visitor: Visitor) -> Self:
        """The same, for the pages of one visitor."""
        mine = copy.copy(self)
        mine.visitor = visitor
        mine.player = VisitorPlayer(self._player, visitor, self._everybody, self._num_simulations)
        return mine

    @property
    def away(self) -> tuple[Away, ...]:
        """The sources that did not answer when they were last asked."""
        return tuple(self._away.values())

    async def look_for_inference(self) -> None:
        """Ask for inference where it did not answer: pages ask it when a visitor does, not before.

        A question costs it nothing; none is asked while it answers.
        """
        if _INFERENCE in self._away:
            with contextlib.suppress(ZerofleetError), self.asking(_INFERENCE):
                await self._player.describe()

    async def rows(self, statement: str, **parameters: object) -> list[Row[Any]]:
        """Ask Postgres one thing.

        Args:
            statement: with ``:name`` for each parameter; it must be bounded.
            parameters: by name.

        Raises:
            StoreUnavailableError: Postgres does not answer, or took longer than ten seconds.
        """

        def ask() -> list[Row[Any]]:
            with self.postgres.reading() as connection:
                return list(connection.execute(text(statement), parameters).all())

        with self.asking("Postgres"):
            return await asyncio.to_thread(ask)

    async def heartbeats(self, run: str) -> list[Heartbeat]:
        """What the processes of a run say of themselves.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        if run not in self._heartbeats:
            self._heartbeats[run] = Heartbeats(self._redis_url, run)
        heartbeats = self._heartbeats[run]
        with self.asking("Redis"):
            beats = await asyncio.to_thread(heartbeats.read)
        # Only this also asks whether Redis takes writes.
        if heartbeats.state.status == "half up":
            self._note("Redis", heartbeats.state.reason, is_half_up=True)
        else:
            self._away.pop("Redis", None)
        return beats

    @property
    def redis(self) -> RedisState:
        """Status of Redis at the last look of any page."""
        away = self._away.get("Redis")
        if away is None:
            return UP
        return RedisState("half up" if away.is_half_up else "down", away.why)

    async def history(self, run: str, service: str, seconds: float) -> ServiceHistory:
        """What the processes of a service have said in so many seconds up to now.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        if run not in self._histories:
            self._histories[run] = HeartbeatHistory(self._redis_url, run)
        read = self._histories[run].read
        with self.asking("Redis"):
            return await asyncio.to_thread(read, service, until=time.time(), seconds=seconds)

    @contextlib.contextmanager
    def asking(self, name: str) -> Generator[None]:
        """Ask a source, and note whether it is up.

        Args:
            name: for people: ``Postgres``, ``Redis`` or ``Inference``.
        """
        try:
            yield
        except (StoreUnavailableError, InferenceUnavailableError) as error:
            self._note(name, str(error))
            raise
        away = self._away.get(name)
        if away is not None and not away.is_half_up:
            del self._away[name]

    def _note(self, name: str, why: str, *, is_half_up: bool = False) -> None:
        """Note that a source is not up, and since when it has been so."""
        before = self._away.get(name)
        is_new = before is None or before.is_half_up != is_half_up
        since = datetime.now(UTC) if before is None or is_new else before.since
        self._away[name] = Away(name, since, why, is_half_up)

    async def runs(self) -> list[tuple[str, str]]:
        """The newest runs of the database, as names and games.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        return [(row.name, row.game) for row in await self.rows(_RUNS)]

    async def find_run(self, name: str) -> ShownRun | None:
        """A run by its name; None: there is none. The service's own is known without Postgres.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        if name in ("", self.run.name):
            return self.run
        # Postgres has no text with a NUL, and says so by an error.
        rows = await self.rows(_RUN, run=name) if "\0" not in name else ()
        if not rows:
            return None
        config: RunConfig | None = None
        with contextlib.suppress(ValueError):
            config = run_from_values(rows[0].config)
        return ShownRun(name, rows[0].game, config)
