"""Figures for the strip at the top of every page: the run and the status of each service."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, cast

from zerofleet.errors import StoreUnavailableError
from zerofleet.exam import has_exam
from zerofleet.fleet.figures import SelfplayFigures, TrainerFigures
from zerofleet.fleet.heartbeat import Heartbeat
from zerofleet.fleet.report import RunFigures, ServiceState, Status, doing_by_name, states_of
from zerofleet.services.dashboard.sources import Away, ShownRun, Sources

STRIP_SECONDS = 2.0
SERVICES_SECONDS = 1.0
_TRAINING = ("selfplay", "trainer", "evaluator")
_EXPECTED = ("inference", *_TRAINING)  # of every run that is up
_MOST_COUNTED = 200_000  # games in one look

_STANDING = """
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

# Below the horizon no transaction is open that may still store a game.
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


class GameCount:
    """The games of a run, each counted once: a look costs what is new since the look before."""

    def __init__(self) -> None:
        self._counted: int = 0
        self._since = "0"
        self.is_whole = False
        """Whether the last look counted all that is stored."""

    async def read(self, sources: Sources, run: str) -> int:
        """So many are stored. While a long run is counted for the first time: so many are counted.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        asked = {"run": run, "since": self._since}
        [row] = await sources.rows(_COUNT, **asked, most=_MOST_COUNTED)
        total: int = self._counted + row.games
        self.is_whole = row.games < _MOST_COUNTED
        if row.games == _MOST_COUNTED and row.settled == row.games:
            [below] = await sources.rows(_COUNT_BELOW, **asked, until=row.last)
            self._counted, self._since = self._counted + below.games, row.last
        elif row.games < _MOST_COUNTED:
            self._counted, self._since = self._counted + row.settled, row.horizon
        return total


_RUN = "run"  # the lamp of a stopped run, which is no service

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
    """The heartbeats of a run, summed up."""

    games_per_hour: float | None = None
    """None: no worker responds. The same holds for the next figure."""
    positions_per_s: float | None = None
    step: int | None = None
    """Step of the trainer; None: it does not respond."""
    lamps: tuple[Lamp, ...] = ()
    """Empty: Redis is down or takes no writes, so it cannot tell."""
    every_steps: int | None = None
    """Steps between two models; None: not known."""

    @property
    def health(self) -> tuple[str, Colour]:
        """Number of healthy services in words, and the colour of the worst."""
        if not self.lamps:
            return "Service status unknown", "idle"
        services = [lamp for lamp in self.lamps if lamp.service != _RUN]
        healthy = sum(lamp.is_healthy for lamp in services)
        colours = {lamp.colour for lamp in services}
        worst = next(
            (colour for colour in ("negative", "warning") if colour in colours), "positive"
        )
        stopped = "" if len(services) == len(self.lamps) else "Run stopped, "
        return f"{stopped}{healthy} of {len(services)} services healthy", cast("Colour", worst)

    @property
    def next_model(self) -> str:
        """Steps until the next model, in words."""
        if not self.step or not self.every_steps:
            return "–"
        return f"in {self.every_steps - self.step % self.every_steps:,} steps"


@dataclass(frozen=True, slots=True)
class StripFigures:
    """The figures of the run, and the sources that do not answer."""

    figures: RunFigures | None = None
    """None: Postgres has not answered yet."""
    away: tuple[Away, ...] = ()


@dataclass(slots=True)
class StripReader:
    """Reads the strip of one run; what cannot be read stays as it was.

    Args:
        sources: where from.
        run: which one.
    """

    sources: Sources
    run: ShownRun
    _figures: RunFigures | None = None
    _count: GameCount = field(default_factory=GameCount)
    _looking: asyncio.Task[None] | None = None

    async def read(self) -> StripFigures:
        """Return the figures now."""
        with contextlib.suppress(StoreUnavailableError):
            self._figures = await self._stored()
        # It may take seconds to say that it is not there: the strip does not wait for it.
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self.sources.look_for_inference())
        return StripFigures(self._figures, self.sources.away)

    async def read_services(self) -> ServiceFigures:
        """Return the status of the services now.

        Read separately from the figures, because Postgres may be slow and the status must be new.
        """
        try:
            beats = await self.sources.heartbeats(self.run.name)
        except StoreUnavailableError:
            return ServiceFigures()
        if self.sources.redis.status != "up":  # heartbeats go out, though their processes run
            return ServiceFigures()
        config = self.run.config
        is_own = self.run.name == self.sources.run.name
        return sum_up(
            beats,
            config.trainer.publish_every_steps if config else None,
            run_is_stopped=is_own and self.sources.run_is_stopped,
        )

    async def _stored(self) -> RunFigures:
        [row] = await self.sources.rows(_STANDING, run=self.run.name)
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
            # Not shown here, because what they count grows with the run, or is in heartbeats.
            positions=0,
            games_last_hour=0,
            games_per_hour=0.0,
            positions_per_s=0.0,
        )


def sum_up(
    beats: Sequence[Heartbeat], every_steps: int | None = None, *, run_is_stopped: bool = False
) -> ServiceFigures:
    """Sum up the heartbeats of a run; rates are those of processes that respond.

    Args:
        beats: of all its processes.
        every_steps: between two models.
        run_is_stopped: no service trains it. A heartbeat outlives a killed process by seconds,
            so heartbeats of training services are left out.
    """
    if run_is_stopped:
        beats = [beat for beat in beats if beat.service not in _TRAINING]
    live = [beat for beat in beats if not beat.is_late]
    workers = [beat.figures for beat in live if isinstance(beat.figures, SelfplayFigures)]
    steps = [beat.progress for beat in live if isinstance(beat.figures, TrainerFigures)]
    return ServiceFigures(
        sum(worker.games_per_hour for worker in workers) if workers else None,
        sum(worker.positions_per_s for worker in workers) if workers else None,
        max(steps, default=None),
        tuple(_lamps(states_of(beats), run_is_stopped=run_is_stopped)),
        every_steps,
    )


def _lamps(states: Sequence[ServiceState], *, run_is_stopped: bool) -> Iterator[Lamp]:
    """Yield one lamp per service, first the services that every run has."""
    words = doing_by_name(states)
    expected = () if run_is_stopped else _EXPECTED
    if run_is_stopped:
        yield Lamp(_RUN, "Stopped", "idle")
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
