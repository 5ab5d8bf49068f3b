"""The fleet: the status and history of each process, unfinished games and active writers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import cast

from zerofleet.services.dashboard.charts import (
    BLUE,
    FEW_POINTS,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    ChartAxis,
    ChartLine,
    ChartPanel,
    Drawing,
    Options,
    Point,
    frame_options,
)
from zerofleet.services.dashboard.fleet_queries import (
    MOST_UNFINISHED,
    SPANS,
    FleetHistory,
    FleetNow,
    Held,
    read_held,
    read_history,
    read_now,
)
from zerofleet.services.dashboard.frame import Frame, Visit, said_heading
from zerofleet.services.dashboard.table import Table, TableColumn
from zerofleet.services.dashboard.toolkit import ui

_NOW_SECONDS = 2.0
_HELD_SECONDS = 5.0
_READINGS = 360  # of history in its span: a third of a point each

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
_UNFINISHED = {
    "process": "Worker",
    "games": "Games",
    "plies": "Plies played",
    "saved": "Saved",
    "lease": "Lease",
    "adoptions": "Adoptions",
}
_FENCES = {"service": "Writer", "epoch": "Epoch", "since": "Since"}
_TEXTS = ("process", "does", "service", "version", "provider", "precision", "lease", "since")


def add_fleet_page(frame: Frame) -> None:
    """Register it."""

    @frame.page("/fleet", "Fleet")
    async def _(visit: Visit) -> None:
        said_heading("Fleet")
        _draw_now(visit)
        _draw_history(visit)
        _draw_held(visit)


def _draw_now(visit: Visit) -> None:
    """Advice, and a table for each kind of process."""
    with ui.element("section").classes("zf-panel zf-wide"):
        ui.label("Advice").classes("zf-title").props('role="heading" aria-level="2"')
        advice = ui.label("none yet")
        asked_for = ui.label().classes("zf-note")
    workers = _table("Self-play", "No workers are sending heartbeats.", _WORKERS)
    replicas = _table("Inference", "No replicas are sending heartbeats.", _REPLICAS)
    fill = _FillChart()
    others = _table(
        "Trainer, evaluator, autoscaler, dashboard", "No processes are sending heartbeats.", _OTHERS
    )

    def show(now: FleetNow) -> None:
        advice.set_text(now.advice)
        asked_for.set_text(f"The autoscaler asks for {now.asked_for}." if now.asked_for else "")
        workers.show(now.workers)
        replicas.show(now.replicas)
        others.show(now.others)
        fill.show(now.batches_by_rows)

    visit.watch(
        visit.shared("fleet now", partial(read_now, visit.sources, visit.run), _NOW_SECONDS), show
    )


def _draw_held(visit: Visit) -> None:
    """Unfinished games with their leases, and the active writers."""
    with ui.element("div").classes("zf-panels"):
        unfinished = _table("Unfinished games", "No unfinished games are saved.", _UNFINISHED)
        fences = _table("Active writers (leader epochs)", "No service has written yet.", _FENCES)
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
    """Charts over a span that is chosen."""
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
                for title, lines in _CHARTS.items():
                    charts[title].show(_drawing(history, lines))

            ends.append(visit.watch(reading, show))

    choice.on_value_change(draw)
    draw()


_Lines = Mapping[str, tuple[Callable[[FleetHistory], Sequence[float | None]], str]]
"""By name, what is drawn and its colour."""


def _total(service: str, name: str) -> Callable[[FleetHistory], Sequence[float | None]]:
    return lambda history: history.services[service].total(name)


def _mean(service: str, name: str) -> Callable[[FleetHistory], Sequence[float | None]]:
    return lambda history: history.services[service].mean(name)


_CHARTS: Mapping[str, _Lines] = {
    "Positions/s": {
        "self-play": (_total("selfplay", "positions_per_s"), BLUE),
        "all": (_total("inference", "rows_per_second"), ORANGE),
        "possible": (_total("inference", "capacity_rows_per_second"), GREY),
    },
    "Games/hour": {"all workers": (_total("selfplay", "games_per_hour"), BLUE)},
    "Batch fill": {"mean of the replicas": (_mean("inference", "fill"), BLUE)},
    "Queue wait ÷ batch time": {
        "mean of the replicas": (_mean("inference", "queue_wait_per_compute"), BLUE)
    },
    "Reuse of predictions": {
        "simulations per position": (lambda history: history.reuse(), BLUE),
    },
    "Self-play, share of time": {
        "blocked": (_mean("selfplay", "waiting_share"), ORANGE),
        "paced to the trainer": (_mean("selfplay", "pause_share"), PURPLE),
    },
    "Samples drawn for each position": {
        "last ten minutes": (_mean("trainer", "reuse"), BLUE),
        "whole run": (_mean("trainer", "samples_per_position"), GREY),
    },
    "Samples a second": {
        "while the trainer need not wait": (_mean("trainer", "samples_per_second"), GREEN)
    },
}


def _drawing(history: FleetHistory, lines: _Lines) -> Drawing:
    steps = history.services["selfplay"].steps
    drawn: list[ChartLine] = []
    for name, (values, colour) in lines.items():
        known = values(history)
        if any(value is not None for value in known):
            points = [
                (1000 * step, None if value is None else float(f"{value:.4g}"))
                for step, value in zip(steps, known, strict=True)
            ]
            # A line has a gap where its value is None: ECharts', which its type does not say.
            few = sum(value is not None for value in known) <= FEW_POINTS
            drawn.append(ChartLine(name, cast("list[Point]", points), colour, dots=few))
    return Drawing(drawn, ChartAxis("time"), ChartAxis(least=0))


class _FillChart:
    """How many batches of how many rows each replica ran; draws itself where it is made."""

    def __init__(self) -> None:
        self._panel = ChartPanel(
            "Batches by size",
            "Inference has run no batches in the last half minute.",
            note="Batches of the last half minute, by the next power of two.",
            wide=True,
        )

    def show(self, batches: Mapping[str, tuple[int, ...]]) -> None:
        """A stack of bars for each size, a colour for each replica."""
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
    """A titled table whose rows come later."""
    with ui.element("section").classes("zf-panel"):
        ui.label(title).classes("zf-title").props('role="heading" aria-level="2"')
        described = [
            TableColumn(name, label, figure=name not in _TEXTS) for name, label in columns.items()
        ]
        return Table(described, empty).classes("zf-long")
