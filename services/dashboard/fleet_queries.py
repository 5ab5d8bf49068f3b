"""Queries of the fleet page: heartbeats, their history, leases and leader epochs in Postgres."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from zerofleet.fleet.figures import AutoscalerFigures, InferenceFigures, SelfplayFigures
from zerofleet.fleet.heartbeat import Heartbeat, ServiceHistory
from zerofleet.fleet.need import advise, observe
from zerofleet.fleet.report import states_of
from zerofleet.redis_connection import RedisState
from zerofleet.services.dashboard.sources import ShownRun, Sources
from zerofleet.services.dashboard.strip import colour_of

SPANS: Mapping[str, int] = MappingProxyType(
    {"last hour": 3600, "last 6 hours": 6 * 3600, "last 24 hours": 24 * 3600}
)
MOST_UNFINISHED = 20_000

_UNFINISHED = f"""
SELECT
    worker, count(*) AS games, min(ply) AS least_ply, max(ply) AS most_ply,
    round(extract(epoch FROM min(lease_until) - now()))::integer AS lease_s,
    round(extract(epoch FROM now() - max(saved_at)))::integer AS saved_s,
    max(epoch) AS epoch
FROM (
    SELECT worker, ply, epoch, lease_until, saved_at FROM unfinished_games
    WHERE run = :run ORDER BY lease_until LIMIT {MOST_UNFINISHED}
) AS u
GROUP BY worker ORDER BY lease_s, worker LIMIT 200
"""
_FENCES = "SELECT role, epoch, acquired_at FROM fences WHERE run = :run ORDER BY role"

Cells = dict[str, Any]
"""A row of a table: a cell by column, numbers as the text that is shown."""


@dataclass(frozen=True, slots=True)
class FleetNow:
    """Heartbeats of all processes, as tables."""

    workers: Sequence[Cells]
    replicas: Sequence[Cells]
    others: Sequence[Cells]
    advice: str
    asked_for: str
    batches_by_rows: Mapping[str, tuple[int, ...]]
    """By inference process."""


@dataclass(frozen=True, slots=True)
class Held:
    """Unfinished games and leader epochs, as Postgres has them."""

    unfinished: Sequence[Cells]
    """By worker, those whose leases end first."""
    fences: Sequence[Cells]

    @property
    def games(self) -> int:
        """Unfinished ones, ``MOST_UNFINISHED`` at most."""
        return sum(row["games"] for row in self.unfinished)


@dataclass(frozen=True, slots=True)
class FleetHistory:
    """What the services have said over a span."""

    seconds: int
    services: Mapping[str, ServiceHistory]

    def reuse(self) -> list[float | None]:
        """Simulations of self-play / positions that the network predicted, at each step."""
        played = self.services["selfplay"]
        return [
            simulations / positions if simulations is not None and positions else None
            for simulations, positions in zip(
                played.total("simulations_per_s"), played.total("positions_per_s"), strict=True
            )
        ]

    @property
    def begins(self) -> str | None:
        """Where history begins inside the span, in words; None: it is older than the span."""
        begins = [at for each in self.services.values() if (at := each.begins_at) is not None]
        if not begins:
            return (
                "No history yet: each process notes its figures every ten seconds, and a day of "
                "them is kept in Redis."
            )
        first = self.services["selfplay"].steps[0]
        if min(begins) <= first + self.seconds / 100:
            return None
        at = datetime.fromtimestamp(min(begins), UTC)
        return (
            f"History begins at {at:%Y-%m-%d %H:%M} UTC: before, nothing ran, or Redis has been "
            "emptied."
        )


async def read_now(sources: Sources, run: ShownRun) -> FleetNow:
    """The fleet as it is.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    beats = await sources.heartbeats(run.name)
    common = _common_cells(beats, sources.redis)
    workers: list[Cells] = []
    replicas: list[Cells] = []
    others: list[Cells] = []
    for beat, cells in zip(beats, common, strict=True):
        figures = beat.figures
        if isinstance(figures, SelfplayFigures):
            workers.append(cells | _worker_cells(figures))
        elif isinstance(figures, InferenceFigures):
            replicas.append(cells | _replica_cells(figures))
        else:
            others.append(cells)
    advice = "Not known: this run was stored by another version of zerofleet."
    if run.config is not None:
        advice = advise(observe(beats), run.config.scaling).words
    return FleetNow(
        workers,
        replicas,
        others,
        advice,
        _asked_for(beats),
        {
            beat.worker: beat.figures.batches_by_rows
            for beat in beats
            if isinstance(beat.figures, InferenceFigures) and any(beat.figures.batches_by_rows)
        },
    )


def _common_cells(beats: Sequence[Heartbeat], redis: RedisState) -> Iterable[Cells]:
    """Return the cells of every process: status with a colour, version and progress."""
    for beat, state in zip(beats, states_of(beats, redis), strict=True):
        yield {
            "key": f"{beat.service} {beat.worker}",
            "service": beat.service,
            "process": beat.worker,
            "does_lamp": colour_of([state.status]),
            "does": state.doing,
            "version": beat.version or "unknown",
            "progress": f"{beat.progress:,}",
        }


def _worker_cells(figures: SelfplayFigures) -> Cells:
    positions = figures.positions_per_s
    reuse = figures.simulations_per_s / positions if positions else None
    return {
        "positions": f"{positions:,.0f}",
        "games": f"{figures.games_per_hour:,.0f}",
        "reuse": _known(reuse, ".2f"),
        "cache": f"{figures.cache_hit_rate:.0%}",
        "waiting": f"{figures.waiting_share:.0%}",
        "paused": f"{figures.pause_share:.0%}",
        "spool": f"{figures.spool:,}",
        "conflicts": f"{figures.conflicts:,}",
        "threshold": _known(figures.resign_threshold, ".2f"),
    }


def _replica_cells(figures: InferenceFigures) -> Cells:
    capacity = figures.capacity_rows_per_second
    return {
        "model": _known(figures.model_version, "d"),
        "precision": figures.precision or "none yet",
        "provider": figures.provider or "see its processes",
        "rows": f"{figures.rows_per_second:,.0f}",
        "capacity": _known(capacity or None, ",.0f"),
        "batch": f"{figures.batch_mean:,.0f}",
        "fill": _known(figures.fill, ".2f"),
        "wait": _known(figures.queue_wait_per_compute, ".2f"),
        "queue": f"{figures.queue_rows:,}",
        "failures": f"{figures.model_load_failures:,}",
    }


def _known(value: float | None, form: str) -> str:
    return "none yet" if value is None else format(value, form)


def _asked_for(beats: Sequence[Heartbeat]) -> str:
    """What the autoscaler asks for, in words; empty: there is none."""
    for beat in beats:
        if isinstance(beat.figures, AutoscalerFigures):
            wanted = asdict(beat.figures)
            return ", ".join(
                f"{_known(wanted[f'{service}_replicas'], 'd')} of {words}"
                for service, words in (("selfplay", "self-play"), ("inference", "inference"))
            )
    return ""


async def read_held(sources: Sources, run: ShownRun) -> Held:
    """Unfinished games and fences.

    Raises:
        StoreUnavailableError: Postgres does not answer.
    """
    unfinished = await sources.rows(_UNFINISHED, run=run.name)
    fences = await sources.rows(_FENCES, run=run.name)
    return Held(
        [
            {
                "key": row.worker,
                "process": row.worker,
                "games": row.games,
                "plies": f"{row.least_ply} to {row.most_ply}",
                "saved": f"{row.saved_s:,} s ago",
                "lease": f"{row.lease_s:,} s left" if row.lease_s > 0 else "expired",
                "adoptions": row.epoch,
            }
            for row in unfinished
        ],
        [
            {
                "key": row.role,
                "service": row.role,
                "epoch": f"{row.epoch:,}",
                "since": f"{row.acquired_at:%Y-%m-%d %H:%M:%S} UTC",
            }
            for row in fences
        ],
    )


async def read_history(sources: Sources, run: ShownRun, seconds: int) -> FleetHistory:
    """What self-play, inference and the trainer have said.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    services = ("selfplay", "inference", "trainer")
    return FleetHistory(
        seconds, {name: await sources.history(run.name, name, seconds) for name in services}
    )
