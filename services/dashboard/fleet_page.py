"""The fleet page: the status and history of each process, unfinished games and active writers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any, cast

from zerofleet.fleet.figures import AutoscalerFigures, InferenceFigures, SelfplayFigures
from zerofleet.fleet.heartbeat import Heartbeat, ServiceHistory
from zerofleet.fleet.need import advise, observe
from zerofleet.fleet.report import counted, duration, states_of
from zerofleet.redis_connection import RedisState
from zerofleet.services.dashboard.charts import (
    BLUE,
    FEW_POINTS,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    TIME_NAME,
    ChartAxis,
    ChartLine,
    ChartPanel,
    Drawing,
    Options,
    Point,
    frame_options,
)
from zerofleet.services.dashboard.frame import Frame, Visit, hidden_heading
from zerofleet.services.dashboard.sources import ShownRun, Sources, colour_of
from zerofleet.services.dashboard.toolkit import NONE, Table, TableColumn, ui

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
"""A row of a table: a cell by column, with numbers as text."""

_NOW_SECONDS = 2.0
_HELD_SECONDS = 5.0
_READINGS = 360  # readings of history over its span: a third of a point each

_WORKERS = {
    "process": "Worker",
    "does": "Status",
    "positions": "Positions/s",
    "games": "Games/hour",
    "reuse": "Simulations per position",
    "cache": "Cache hit rate",
    "waiting": "Time blocked",
    "paused": "Time paced to the trainer",
    "threshold": "Resignation threshold",
    "spool": "Games to store",
    "conflicts": "Conflicts",
    "version": "zerofleet version",
}
_REPLICAS = {
    "process": "Replica",
    "does": "Status",
    "model": "Model",
    "precision": "Precision",
    "provider": "Execution provider",
    "rows": "Positions/s",
    "capacity": "Capacity, positions/s",
    "batch": "Batch size",
    "fill": "Batch fill",
    "wait": "Queue wait ÷ batch time",
    "queue": "Queued positions",
    "failures": "Failed model loads",
    "version": "zerofleet version",
}
_OTHERS = {
    "service": "Service",
    "process": "Process",
    "does": "Status",
    "progress": "Progress",
    "version": "zerofleet version",
}
_UNFINISHED_COLUMNS = {
    "process": "Worker",
    "games": "Games",
    "plies": "Plies played",
    "saved": "Saved",
    "lease": "Lease",
    "adoptions": "Adoptions",
}
_FENCE_COLUMNS = {"service": "Writer", "epoch": "Epoch", "since": "Since"}
_TEXTS = ("process", "does", "service", "version", "provider", "precision", "lease", "since")


@dataclass(frozen=True, slots=True)
class FleetNow:
    """The heartbeats of all processes, as tables."""

    workers: Sequence[Cells]
    replicas: Sequence[Cells]
    others: Sequence[Cells]
    advice: str
    """Advice on the number of workers."""
    details: str
    """The figures behind the advice, and what an autoscaler requests."""
    batches_by_rows: Mapping[str, tuple[int, ...]]
    """Batches by size, for each inference process."""


@dataclass(frozen=True, slots=True)
class Held:
    """Unfinished games and leader epochs from Postgres."""

    unfinished: Sequence[Cells]
    """Unfinished games by worker, sorted by the end of the lease."""
    fences: Sequence[Cells]

    @property
    def games(self) -> int:
        """Number of unfinished games, ``MOST_UNFINISHED`` at most."""
        return sum(row["games"] for row in self.unfinished)


@dataclass(frozen=True, slots=True)
class FleetHistory:
    """History of the services over a span."""

    seconds: int
    services: Mapping[str, ServiceHistory]

    def reuse(self) -> list[float | None]:
        """Return simulations of self-play / positions that the network predicted, at each step."""
        played = self.services["selfplay"]
        return [
            simulations / positions if simulations is not None and positions else None
            for simulations, positions in zip(
                played.total("simulations_per_second"),
                played.total("positions_per_second"),
                strict=True,
            )
        ]

    @property
    def begins(self) -> str | None:
        """Return where history begins inside the span, in words; None if it is older."""
        begins = [at for each in self.services.values() if (at := each.begins_at) is not None]
        if not begins:
            return (
                "No history yet: each process saves its figures every ten seconds, and Redis keeps "
                "them for a day."
            )
        first = self.services["selfplay"].steps[0]
        if min(begins) <= first + self.seconds / 100:
            return None
        at = datetime.fromtimestamp(min(begins), UTC)
        return (
            f"History begins at {at:%Y-%m-%d %H:%M} UTC: before that nothing ran, or Redis was "
            "emptied."
        )


async def read_now(sources: Sources, run: ShownRun) -> FleetNow:
    """Return the current state of the fleet.

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
    words, details = "Not known: this run was stored by another version of zerofleet.", []
    if run.config is not None:
        advice = advise(observe(beats), run.config.scaling)
        words, details = advice.words, [advice.figures and f"Figures: {advice.figures}"]
    return FleetNow(
        workers,
        replicas,
        others,
        words,
        " ".join(f"{each}." for each in (*details, _requested(beats)) if each),
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
    positions = figures.positions_per_second
    reuse = figures.simulations_per_second / positions if positions else None
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
        "precision": figures.precision or NONE,
        "provider": figures.provider or NONE,
        "rows": f"{figures.rows_per_second:,.0f}",
        "capacity": _known(capacity or None, ",.0f"),
        "batch": f"{figures.batch_mean:,.0f}",
        "fill": _known(figures.fill, ".2f"),
        "wait": _known(figures.queue_wait_per_compute, ".2f"),
        "queue": f"{figures.queue_rows:,}",
        "failures": f"{figures.model_load_failures:,}",
    }


def _known(value: float | None, form: str) -> str:
    return NONE if value is None else format(value, form)


def _requested(beats: Sequence[Heartbeat]) -> str:
    """Return the autoscaler's desired numbers in words; empty if it requests none."""
    for beat in beats:
        if isinstance(beat.figures, AutoscalerFigures):
            wanted = (
                (beat.figures.selfplay_replicas, "self-play worker"),
                (beat.figures.inference_replicas, "inference replica"),
            )
            known = [counted(number, noun) for number, noun in wanted if number is not None]
            return f"The autoscaler requests {' and '.join(known)}" if known else ""
    return ""


async def read_held(sources: Sources, run: ShownRun) -> Held:
    """Return the unfinished games and the fences.

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
                "saved": f"{duration(row.saved_s)} ago",
                "lease": f"{duration(row.lease_s)} left" if row.lease_s > 0 else "expired",
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
    """Return the history of self-play, inference and the trainer.

    Raises:
        StoreUnavailableError: Redis does not answer.
    """
    services = ("selfplay", "inference", "trainer")
    return FleetHistory(
        seconds, {name: await sources.history(run.name, name, seconds) for name in services}
    )


def add_fleet_page(frame: Frame) -> None:
    """Register the page."""

    @frame.page("/fleet", "Fleet")
    async def _(visit: Visit) -> None:
        hidden_heading("Fleet")
        _draw_now(visit)
        _draw_history(visit)
        _draw_held(visit)


def _draw_now(visit: Visit) -> None:
    """Draw the advice, and a table for each kind of process."""
    with ui.element("section").classes("zf-panel zf-wide"):
        ui.label("Advice").classes("zf-title").props('role="heading" aria-level="2"')
        advice = ui.label("Waiting for the first heartbeats.")
        details = ui.label().classes("zf-note")
    workers = _table("Self-play", "No workers are sending heartbeats.", _WORKERS)
    replicas = _table("Inference", "No replicas are sending heartbeats.", _REPLICAS)
    fill = _FillChart()
    others = _table(
        "Trainer, evaluator, autoscaler, dashboard", "No processes are sending heartbeats.", _OTHERS
    )

    def show(now: FleetNow) -> None:
        advice.set_text(now.advice)
        details.set_text(now.details)
        workers.show(now.workers)
        replicas.show(now.replicas)
        others.show(now.others)
        fill.show(now.batches_by_rows)

    visit.watch(
        visit.shared("fleet now", partial(read_now, visit.sources, visit.run), _NOW_SECONDS), show
    )


def _draw_held(visit: Visit) -> None:
    """Draw the unfinished games with their leases, and the active writers."""
    with ui.element("div").classes("zf-panels"):
        unfinished = _table(
            "Unfinished games", "No unfinished games are saved.", _UNFINISHED_COLUMNS
        )
        fences = _table(
            "Active writers (leader epochs)", "No service has written yet.", _FENCE_COLUMNS
        )
    note = ui.label().classes("zf-note")

    def show(held: Held) -> None:
        unfinished.show(held.unfinished)
        fences.show(held.fences)
        more = " or more" if held.games >= MOST_UNFINISHED else ""
        note.set_text(
            f"{held.games:,} games{more} in play are saved in Postgres. When a lease expires, "
            "another worker adopts the game. Writes with an older epoch are refused."
        )

    visit.watch(
        visit.shared("fleet held", partial(read_held, visit.sources, visit.run), _HELD_SECONDS),
        show,
    )


def _draw_history(visit: Visit) -> None:
    """Draw charts over a span that the visitor chooses."""
    with ui.element("div").classes("zf-panel-head"):
        ui.label("History").classes("zf-title").props('role="heading" aria-level="2"')
        with ui.element("div").classes("zf-tools"):
            choice = ui.toggle(list(SPANS), value=next(iter(SPANS)))
            choice.props('dense no-caps unelevated aria-label="span"')
    place = ui.element("div")
    ends: list[Callable[[], None]] = []

    def draw() -> None:
        place.clear()
        while ends:
            ends.pop()()
        seconds = SPANS[str(choice.value)]
        reading = visit.shared(
            f"fleet history {seconds}",
            partial(read_history, visit.sources, visit.run, seconds),
            seconds / _READINGS,
        )
        with place:
            note = ui.label().classes("zf-note")
            with ui.element("div").classes("zf-panels zf-small"):
                empty = "No data yet. A process of the service must run for half a minute."
                charts = {title: ChartPanel(title, empty) for title in _CHARTS}

            def show(history: FleetHistory) -> None:
                note.set_text(history.begins or "")
                for title, (unit, lines) in _CHARTS.items():
                    charts[title].show(_drawing(history, unit, lines))

            ends.append(visit.watch(reading, show))

    choice.on_value_change(draw)
    draw()


_Lines = Mapping[str, tuple[Callable[[FleetHistory], Sequence[float | None]], str]]
"""By name, the values of a line and its colour."""


def _total(service: str, name: str) -> Callable[[FleetHistory], Sequence[float | None]]:
    return lambda history: history.services[service].total(name)


def _mean(service: str, name: str) -> Callable[[FleetHistory], Sequence[float | None]]:
    return lambda history: history.services[service].mean(name)


def _percent(service: str, name: str) -> Callable[[FleetHistory], Sequence[float | None]]:
    return lambda history: [
        None if share is None else 100 * share for share in history.services[service].mean(name)
    ]


_CHARTS: Mapping[str, tuple[str, _Lines]] = {
    "Positions/s": (
        "positions/s",
        {
            "self-play": (_total("selfplay", "positions_per_second"), BLUE),
            "all requests": (_total("inference", "rows_per_second"), ORANGE),
            "capacity": (_total("inference", "capacity_rows_per_second"), GREY),
        },
    ),
    "Games/hour": ("games/hour", {"all workers": (_total("selfplay", "games_per_hour"), BLUE)}),
    "Batch fill": (
        "% of the largest batch",
        {"mean of the replicas": (_percent("inference", "fill"), BLUE)},
    ),
    "Queue wait ÷ batch time": (
        "ratio",
        {"mean of the replicas": (_mean("inference", "queue_wait_per_compute"), BLUE)},
    ),
    "Simulations per position": (
        "simulations per predicted position",
        {"self-play": (lambda history: history.reuse(), BLUE)},
    ),
    "Self-play: time not playing": (
        "% of time",
        {
            "blocked": (_percent("selfplay", "waiting_share"), ORANGE),
            "paced to the trainer": (_percent("selfplay", "pause_share"), PURPLE),
        },
    ),
    "Sample reuse (replay ratio)": (
        "samples per position",
        {
            "last ten minutes": (_mean("trainer", "reuse"), BLUE),
            "whole run": (_mean("trainer", "samples_per_position"), GREY),
        },
    ),
    "Training speed": (
        "samples/s",
        {"while not waiting for positions": (_mean("trainer", "samples_per_second"), GREEN)},
    ),
}
"""By title, the unit of the y axis and the lines."""


def _drawing(history: FleetHistory, unit: str, lines: _Lines) -> Drawing:
    steps = history.services["selfplay"].steps
    drawn: list[ChartLine] = []
    for name, (values, colour) in lines.items():
        known = values(history)
        if any(value is not None for value in known):
            points = [
                (1000 * step, None if value is None else float(f"{value:.4g}"))
                for step, value in zip(steps, known, strict=True)
            ]
            # A None leaves a gap in ECharts, though its type does not allow one.
            few = sum(value is not None for value in known) <= FEW_POINTS
            drawn.append(ChartLine(name, cast("list[Point]", points), colour, dots=few))
    y = ChartAxis(name=unit, least=0, most=100 if unit.startswith("%") else None)
    return Drawing(drawn, ChartAxis("time", TIME_NAME), y)


class _FillChart:
    """Number of batches by size for each replica; draws itself where it is made."""

    def __init__(self) -> None:
        self._panel = ChartPanel(
            "Batches by size",
            "Inference has run no batches in the last half minute.",
            note="Batches of the last half minute, by the next power of two.",
            wide=True,
        )

    def show(self, batches: Mapping[str, tuple[int, ...]]) -> None:
        """Draw a stack of bars for each size, with a colour for each replica."""
        sizes = max(map(len, batches.values()), default=0)
        if not sizes:
            return
        colours = (BLUE, ORANGE, GREEN, PURPLE, GREY)
        series: list[Options] = [
            {
                "name": replica,
                "type": "bar",
                "stack": "batches",
                "data": list(counts),
                "color": colours[place % len(colours)],
                "barMaxWidth": 28,
            }
            for place, (replica, counts) in enumerate(batches.items())
        ]
        names = [str(1 << power) for power in range(sizes)]
        self._panel.show_options(
            {
                **frame_options(list(batches)),
                "xAxis": ChartAxis("category", "positions, up to", categories=names).options(
                    upright=False
                ),
                "yAxis": ChartAxis(name="batches", whole=True).options(upright=True),
                "series": series,
            }
        )


def _table(title: str, empty: str, columns: Mapping[str, str]) -> Table:
    """Return a titled table, still without rows."""
    with ui.element("section").classes("zf-panel"):
        ui.label(title).classes("zf-title").props('role="heading" aria-level="2"')
        described = [
            TableColumn(name, label, figure=name not in _TEXTS) for name, label in columns.items()
        ]
        return Table(described, empty).classes("zf-long")
