"""The sources of the pages: Postgres, the heartbeats in Redis, and the inference service.

Nothing is written. Each source records since when it is down, and is up again as soon as it
answers. A value that many open pages show is read once for all of them (``SharedReading``), such as
the figures of the strip at the top of every page (``StripReader``).
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import time
from collections.abc import Awaitable, Callable, Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, Literal, Self, TypeVar, cast

import structlog
from sqlalchemy import Connection, Row, text

from zerofleet.client import AsyncPlayer
from zerofleet.config import RunConfig, stored_run
from zerofleet.database.connection import ConnectionPool
from zerofleet.errors import (
    ConfigError,
    InferenceUnavailableError,
    StoreUnavailableError,
    ZerofleetError,
)
from zerofleet.exam import has_exam
from zerofleet.fleet.figures import SelfplayFigures, TrainerFigures
from zerofleet.fleet.heartbeat import Heartbeat, HeartbeatHistory, Heartbeats, ServiceHistory
from zerofleet.fleet.report import (
    RunFigures,
    ServiceState,
    Status,
    doing_by_name,
    has_resumed,
    next_model_text,
    states_of,
    steps_to_next,
)
from zerofleet.fleet.usage import read_usage
from zerofleet.redis_connection import UP, RedisState
from zerofleet.rpc.tls import client_credentials
from zerofleet.search_configs import client_simulations
from zerofleet.services.dashboard.settings import DashboardSettings
from zerofleet.services.dashboard.visitors import Allowance, Visitor, VisitorPlayer

_Value = TypeVar("_Value")

_LEAST_REST = 25  # times the duration of a reading, so that none takes more than 4% of a core
_LOADING_REST = 3  # the same, while a reading loads the history of a long run

_log = structlog.get_logger()

_CONNECTIONS = 6  # limit of the role: 20
_OTHER_CONNECTIONS = 2
_STATEMENT_SECONDS = 10
_MOST_RUNS = 100
_INFERENCE = "Inference"

_RUNS = f"SELECT name, game FROM runs ORDER BY created_at DESC LIMIT {_MOST_RUNS}"
_RUN = "SELECT name, game, config FROM runs WHERE name = :run"
_RUNS_OF_GAME = f"""
SELECT name, game, config FROM runs WHERE game = :game ORDER BY created_at DESC LIMIT {_MOST_RUNS}
"""

STRIP_SECONDS = 2.0
SERVICES_SECONDS = 1.0
_TRAINING = ("selfplay", "trainer", "evaluator")
_EXPECTED = ("inference", *_TRAINING)  # services of every run that is up
_MOST_COUNTED = 200_000  # games per reading

_RUN_SUMMARY = """
SELECT
    (SELECT count(*) FROM models WHERE run = :run) AS models,
    h.seq AS promotions, h.version AS best_version, h.at AS best_since,
    r.version AS rated_version, r.elo, r.elo_error
FROM (SELECT 1) AS one
LEFT JOIN LATERAL (
    SELECT seq, version, at FROM promotions WHERE run = :run ORDER BY seq DESC LIMIT 1
) AS h ON true
LEFT JOIN LATERAL (
    SELECT version, elo, elo_error FROM promotions JOIN ratings USING (run, version)
    WHERE run = :run ORDER BY seq DESC LIMIT 1
) AS r ON true
"""

# Below the horizon no open transaction can still store a game.
_COUNT = """
SELECT
    count(*) AS games, max(tx)::text AS last,
    count(*) FILTER (WHERE tx < pg_snapshot_xmin(pg_current_snapshot())) AS settled,
    pg_snapshot_xmin(pg_current_snapshot())::text AS horizon
FROM (
    SELECT tx FROM games
    WHERE run = :run AND kind = 'selfplay' AND tx >= CAST(:since AS xid8)
    ORDER BY tx LIMIT :most
) AS newest
"""

_COUNT_BELOW = """
SELECT count(*) AS games FROM games
WHERE run = :run AND kind = 'selfplay'
    AND tx >= CAST(:since AS xid8) AND tx < CAST(:until AS xid8)
"""


class SharedReading(Generic[_Value]):
    """One value, read every few seconds while somebody watches, and never while nobody does.

    Twenty pages cost as much as one: the value is read once, and they are notified only when it has
    changed. If a reading fails, the last value stays.

    Args:
        name: name for the log.
        read: reads the value; it must not block the event loop.
        every: seconds between two readings; more if they take long.
        keep: keep it without watchers, because ``read`` continues from its last result.
        is_loading: whether a value is incomplete, so that the next reading follows soon.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[], Awaitable[_Value]],
        every: float,
        *,
        keep: bool = False,
        is_loading: Callable[[_Value], bool] = lambda _: False,
    ) -> None:
        self.keep = keep
        self._is_loading = is_loading
        self._name = name
        self._read = read
        self._every = every
        self._watchers: dict[object, Callable[[_Value], None]] = {}
        self._task: asyncio.Task[None] | None = None
        self.value: _Value | None = None
        """The last value read; None: it was not read yet, or nobody watches."""

    def watch(self, draw: Callable[[_Value], None]) -> Callable[[], None]:
        """Call ``draw`` with the value: at once if it is known, then whenever it changes.

        Args:
            draw: called in the event loop.

        Returns:
            A function that ends it; further calls do nothing.
        """
        key = object()
        self._watchers[key] = draw
        if self.value is not None:
            self._draw(draw, self.value)
        if self._task is None:
            self._task = asyncio.create_task(self._keep_reading())
        return lambda: self._leave(key)

    @property
    def watchers(self) -> int:
        """Number of watchers."""
        return len(self._watchers)

    def _leave(self, key: object) -> None:
        self._watchers.pop(key, None)
        if not self._watchers and self._task is not None:
            self._task.cancel()
            self._task = None
            self.value = None  # the next watcher must not get a value from hours ago

    async def _keep_reading(self) -> None:
        while True:
            began = time.monotonic()
            try:
                value = await self._read()
            except ZerofleetError as error:
                _log.debug("not_read", reading=self._name, error=str(error))
            except Exception:
                # An error in one panel must not end the service, nor the readings of the others.
                _log.exception("reading_failed", reading=self._name)
            else:
                self._take(value)
            took = time.monotonic() - began
            loads = self.value is not None and self._is_loading(self.value)
            pause = _LOADING_REST * took if loads else max(self._every, _LEAST_REST * took)
            await asyncio.sleep(pause)

    def _take(self, value: _Value) -> None:
        if value == self.value:
            return
        self.value = value
        for draw in list(self._watchers.values()):
            self._draw(draw, value)

    def _draw(self, draw: Callable[[_Value], None], value: _Value) -> None:
        try:
            draw(value)
        except Exception:
            _log.exception("drawing_failed", reading=self._name)


@dataclass(frozen=True, slots=True)
class Outage:
    """An outage of a source: it is down or half up, or it is a database of another version."""

    name: str
    since: datetime
    why: str
    is_half_up: bool = False
    """Whether it answers but refuses writes."""

    @property
    def words(self) -> str:
        """Return the text for the page."""
        if self.is_half_up:
            return f"{self.name} has been half up since {self.since:%H:%M:%S} UTC: {self.why}"
        return f"{self.name} has been unavailable since {self.since:%H:%M:%S} UTC: {self.why}"


@dataclass(frozen=True, slots=True)
class ShownRun:
    """A run of the database."""

    name: str
    game: str
    config: RunConfig | None
    """None: it was stored by a version of zerofleet with other keys."""


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A run whose curves can be drawn in one chart with others."""

    label: str
    """Name on the page."""
    run: ShownRun
    sources: Sources
    """The sources with the database of this run."""
    usage_file: Path | None = None
    is_elsewhere: bool = False
    """Whether it is in another database than the service's own run."""

    async def usage(self) -> Sequence[tuple[float, float]]:
        """Return times in seconds since 1970 with the CPU-seconds until then; empty if unknown."""
        file = self.usage_file
        return () if file is None else (await asyncio.to_thread(read_usage, file))[1]


class ReadOnlyPool(ConnectionPool):
    """Connections whose transactions write nothing and end within seconds."""

    _is_checked = False

    @contextlib.contextmanager
    def reading(self, seconds: int = _STATEMENT_SECONDS) -> Generator[Connection]:
        """Open a read-only transaction, each of whose statements may take this long.

        Raises:
            StoreUnavailableError: Postgres does not answer, took longer, or has the tables and
                views of another version.
        """
        if not self._is_checked:
            try:
                self.wait_ready(timeout=0)
            # a newer version's database, until this service is updated
            except ConfigError as error:
                raise StoreUnavailableError(str(error)) from error
            self._is_checked = True
        with self._transaction() as connection:
            connection.exec_driver_sql(
                f"SET TRANSACTION READ ONLY; SET LOCAL statement_timeout = '{seconds:d}s'"
            )
            yield connection


class Sources:
    """All sources of the pages; for ``async with``, in the service's event loop.

    Args:
        run: run of the service's run file, which pages show by default.
        settings: addresses of the stores and the inference service.

    Raises:
        ConfigError: an address is not valid.
    """

    def __init__(self, run: RunConfig, settings: DashboardSettings) -> None:
        self.run = ShownRun(run.name, run.game.name, run)
        self.postgres = ReadOnlyPool(settings.database_url, pool_size=_CONNECTIONS)
        self.run_is_stopped = settings.dashboard_run_stopped
        """Whether the service's own run is stopped and only shown."""
        self._usage_file = settings.dashboard_usage_file
        self._postgres_name = "Postgres"
        self._others = [
            (other, ReadOnlyPool(other.database_url, pool_size=_OTHER_CONNECTIONS))
            for other in settings.dashboard_other_runs
        ]
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
        self._num_simulations = client_simulations(run)
        self._outages: dict[str, Outage] = {}

    async def __aenter__(self) -> Self:
        await self._player.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._player.__aexit__(None, None, None)
        for reader in (*self._heartbeats.values(), *self._histories.values()):
            reader.close()
        for pool in (self.postgres, *(pool for _, pool in self._others)):
            pool.close()

    visitor: Visitor
    """The visitor of the page."""
    player: VisitorPlayer
    """Player of the service's own run, limited to what the visitor may do.

    Other runs have their own inference services.
    """

    def of(self, visitor: Visitor) -> Self:
        """Return a copy for the pages of one visitor."""
        mine = copy.copy(self)
        mine.visitor = visitor
        mine.player = VisitorPlayer(self._player, visitor, self._everybody, self._num_simulations)
        return mine

    @property
    def outages(self) -> tuple[Outage, ...]:
        """The sources that did not answer at the last call."""
        return tuple(self._outages.values())

    async def look_for_inference(self) -> None:
        """Call inference if it was down, because pages call it only when a visitor does.

        The call is cheap, and none is made while inference answers.
        """
        if _INFERENCE in self._outages:
            with contextlib.suppress(ZerofleetError), self.asking(_INFERENCE):
                await self._player.describe()

    async def rows(self, statement: str, **parameters: object) -> list[Row[Any]]:
        """Run one query in Postgres.

        Args:
            statement: with ``:name`` for each parameter; it must be bounded.
            parameters: values by name.

        Raises:
            StoreUnavailableError: Postgres does not answer, or took longer than ten seconds.
        """

        def ask() -> list[Row[Any]]:
            with self.postgres.reading() as connection:
                return list(connection.execute(text(statement), parameters).all())

        with self.asking(self._postgres_name):
            return await asyncio.to_thread(ask)

    async def heartbeats(self, run: str) -> list[Heartbeat]:
        """Return the heartbeats of a run's processes.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        if run not in self._heartbeats:
            self._heartbeats[run] = Heartbeats(self._redis_url, run)
        heartbeats = self._heartbeats[run]
        with self.asking("Redis"):
            beats = await asyncio.to_thread(heartbeats.read)
        # Only this call also checks whether Redis accepts writes.
        if heartbeats.state.status == "half up":
            self._record_outage("Redis", heartbeats.state.reason, is_half_up=True)
        else:
            self._outages.pop("Redis", None)
        return beats

    @property
    def redis(self) -> RedisState:
        """Status of Redis at the last reading by any page."""
        outage = self._outages.get("Redis")
        if outage is None:
            return UP
        return RedisState("half up" if outage.is_half_up else "down", outage.why)

    async def history(self, run: str, service: str, seconds: float) -> ServiceHistory:
        """Return the history of a service's processes over the last seconds.

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
        """Call a source in this block, and record whether it is up.

        Args:
            name: name for people: ``Postgres``, ``Redis`` or ``Inference``.
        """
        try:
            yield
        except (StoreUnavailableError, InferenceUnavailableError) as error:
            self._record_outage(name, str(error))
            raise
        outage = self._outages.get(name)
        if outage is not None and not outage.is_half_up:
            del self._outages[name]

    def _record_outage(self, name: str, why: str, *, is_half_up: bool = False) -> None:
        """Record that a source is not up, and since when."""
        before = self._outages.get(name)
        is_new = before is None or before.is_half_up != is_half_up
        since = datetime.now(UTC) if before is None or is_new else before.since
        self._outages[name] = Outage(name, since, why, is_half_up)

    async def runs(self) -> list[tuple[str, str]]:
        """Return the newest runs of the database, as names and games.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        return [(row.name, row.game) for row in await self.rows(_RUNS)]

    async def find_run(self, name: str) -> ShownRun | None:
        """Return a run by its name; None: there is none. The service's own needs no Postgres.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        if name in ("", self.run.name):
            return self.run
        # Postgres cannot store a NUL in text, and raises an error.
        rows = await self.rows(_RUN, run=name) if "\0" not in name else ()
        if not rows:
            return None
        return ShownRun(name, rows[0].game, _config_of(rows[0]))

    async def compared_runs(self, shown: ShownRun) -> list[ComparedRun]:
        """Return the runs of the shown run's game, that run first.

        Other runs of its database follow, then the runs of other databases. A run of another
        database is left out while its Postgres does not answer.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        rows = await self.rows(_RUNS_OF_GAME, game=shown.game)
        stored = {row.name: ShownRun(row.name, row.game, _config_of(row)) for row in rows}
        found = [
            ComparedRun(
                run.name, run, self, self._usage_file if run.name == self.run.name else None
            )
            for run in {shown.name: shown, **stored}.values()
        ]
        for other, pool in self._others:
            there = copy.copy(self)
            there.postgres = pool
            there._postgres_name = f"Postgres of {other.label}"
            with contextlib.suppress(StoreUnavailableError):
                for row in await there.rows(_RUN, run=other.run):
                    run = ShownRun(row.name, row.game, _config_of(row))
                    found.append(ComparedRun(other.label, run, there, other.usage_file, True))
        return found


def _config_of(row: Row[Any]) -> RunConfig | None:
    """Return the configuration of a run's row; None: another version of zerofleet stored it."""
    with contextlib.suppress(ValueError):
        return stored_run(row.config)
    return None


class GameCount:
    """The games of a run, each counted once: a reading counts only games that are new."""

    def __init__(self) -> None:
        self._counted: int = 0
        self._since = "0"
        self.is_whole = False
        """Whether the last reading counted everything that is stored."""

    async def read(self, sources: Sources, run: str) -> int:
        """Return the number of stored games; while a long run is first counted, the games so far.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        parameters = {"run": run, "since": self._since}
        [row] = await sources.rows(_COUNT, **parameters, most=_MOST_COUNTED)
        total: int = self._counted + row.games
        self.is_whole = row.games < _MOST_COUNTED
        if row.games == _MOST_COUNTED and row.settled == row.games:
            [below] = await sources.rows(_COUNT_BELOW, **parameters, until=row.last)
            self._counted, self._since = self._counted + below.games, row.last
        elif row.games < _MOST_COUNTED:
            self._counted, self._since = self._counted + row.settled, row.horizon
        return total


_STOPPED_RUN = "run"  # lamp of a stopped run, which is not a service

Colour = Literal["positive", "idle", "warning", "negative"]
"""Green, grey, orange and red. Orange and red mean that somebody should act."""


@dataclass(frozen=True, slots=True)
class Lamp:
    """The status of a service."""

    service: str
    words: str
    colour: Colour

    @property
    def is_healthy(self) -> bool:
        """Whether nobody has to act."""
        return self.colour in ("positive", "idle")


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """Summary of the heartbeats of a run."""

    games_per_hour: float | None = None
    """None: no worker responds. The same applies to the next figure."""
    positions_per_second: float | None = None
    step: int | None = None
    """Step of the trainer; None: it does not respond, or has not resumed."""
    lamps: tuple[Lamp, ...] = ()
    """Empty if Redis is down or refuses writes, so that the status is unknown."""
    every_steps: int | None = None
    """Steps between two models; None: not known."""

    @property
    def health(self) -> tuple[str, Colour]:
        """Number of healthy services in words, which ones are not, and the colour of the worst."""
        if not self.lamps:
            return "Service status unknown", "idle"
        services = [lamp for lamp in self.lamps if lamp.service != _STOPPED_RUN]
        healthy = sum(lamp.is_healthy for lamp in services)
        colours = {lamp.colour for lamp in services}
        worst = next(
            (colour for colour in ("negative", "warning") if colour in colours), "positive"
        )
        stopped = "" if len(services) == len(self.lamps) else "Run stopped, "
        words = f"{stopped}{healthy} of {len(services)} services healthy"
        ill = [
            f"{lamp.service} {lamp.words}"
            for lamp in sorted(services, key=lambda lamp: lamp.colour != "negative")
            if not lamp.is_healthy
        ]
        return f"{words}: {'; '.join(ill)}" if ill else words, cast("Colour", worst)

    @property
    def next_model(self) -> str:
        """Steps until the next model, in words."""
        if self.step is None or not self.every_steps:
            return "–"
        return next_model_text(steps_to_next(self.step, self.every_steps))


@dataclass(frozen=True, slots=True)
class StripFigures:
    """Figures of the status bar, and the sources that are down or half up."""

    figures: RunFigures | None = None
    """None: Postgres has not answered yet."""
    outages: tuple[Outage, ...] = ()


@dataclass(slots=True)
class StripReader:
    """Reads the strip of one run; values that cannot be read stay as they were."""

    sources: Sources
    run: ShownRun
    _figures: RunFigures | None = None
    _count: GameCount = field(default_factory=GameCount)
    _looking: asyncio.Task[None] | None = None

    async def read(self) -> StripFigures:
        """Return the current figures."""
        with contextlib.suppress(StoreUnavailableError):
            self._figures = await self._stored()
        # It may take seconds to report that it is down, and the strip does not wait for it.
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self.sources.look_for_inference())
        return StripFigures(self._figures, self.sources.outages)

    async def read_services(self) -> ServiceFigures:
        """Return the current status of the services.

        It is read separately from the figures, because Postgres may be slow and the status must be
        new.
        """
        try:
            beats = await self.sources.heartbeats(self.run.name)
        except StoreUnavailableError:
            return ServiceFigures()
        if self.sources.redis.status != "up":  # heartbeats expire, though their processes run
            return ServiceFigures()
        config = self.run.config
        is_own = self.run.name == self.sources.run.name
        return sum_up(
            beats,
            config.trainer.publish_every_steps if config else None,
            run_is_stopped=is_own and self.sources.run_is_stopped,
        )

    async def _stored(self) -> RunFigures:
        [row] = await self.sources.rows(_RUN_SUMMARY, run=self.run.name)
        since: datetime | None = row.best_since
        return RunFigures(
            run=self.run.name,
            game=self.run.game,
            games=await self._count.read(self.sources, self.run.name),
            models=row.models,
            promotions=row.promotions or 0,
            best_version=row.best_version,
            best_age_s=None if since is None else (datetime.now(UTC) - since).total_seconds(),
            rated_version=row.rated_version,
            elo=row.elo,
            elo_error=row.elo_error,
            has_exam=has_exam(self.run.game),
            # Not shown here, because counting them grows with the run, or they are in heartbeats.
            positions=0,
            games_last_hour=0,
            games_per_hour=0.0,
            positions_per_second=0.0,
        )


def sum_up(
    beats: Sequence[Heartbeat], every_steps: int | None = None, *, run_is_stopped: bool = False
) -> ServiceFigures:
    """Sum up the heartbeats of a run; rates include only processes that respond.

    Args:
        beats: heartbeats of all its processes.
        every_steps: steps between two models.
        run_is_stopped: no service trains it. A heartbeat outlives a killed process by seconds, so
            heartbeats of training services are left out.
    """
    if run_is_stopped:
        beats = [beat for beat in beats if beat.service not in _TRAINING]
    live = [beat for beat in beats if not beat.is_late]
    workers = [beat.figures for beat in live if isinstance(beat.figures, SelfplayFigures)]
    steps = [
        beat.progress
        for beat in live
        if isinstance(beat.figures, TrainerFigures) and has_resumed(beat.figures)
    ]
    return ServiceFigures(
        sum(worker.games_per_hour for worker in workers) if workers else None,
        sum(worker.positions_per_second for worker in workers) if workers else None,
        max(steps, default=None),
        tuple(_lamps(states_of(beats), run_is_stopped=run_is_stopped)),
        every_steps,
    )


def _lamps(states: Sequence[ServiceState], *, run_is_stopped: bool) -> Iterator[Lamp]:
    """Yield one lamp per service, first the services that every run has."""
    words = doing_by_name(states)
    expected = () if run_is_stopped else _EXPECTED
    if run_is_stopped:
        yield Lamp(_STOPPED_RUN, "Stopped", "idle")
    for name in (*expected, *(each for each in words if each not in expected)):
        if name not in words:
            yield Lamp(name, "Down (no heartbeat)", "negative")
        else:
            yield Lamp(name, words[name], colour_of([s.status for s in states if s.name == name]))


def colour_of(statuses: Collection[Status]) -> Colour:
    """Return the colour for the processes of a service; red if none of them responds."""
    if all(status == "down" for status in statuses):
        return "negative"
    if {"blocked", "down"} & set(statuses):
        return "warning"
    return "positive" if "running" in statuses else "idle"
