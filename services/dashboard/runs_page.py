"""Several runs in one chart: exam errors, Elo and losses, and the keys in which the runs differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, cast

from zerofleet.config.differences import differing_keys, run_values, value_words
from zerofleet.exam import has_exam, position_kinds
from zerofleet.fleet.report import POSITION_WORDS, exam_unit
from zerofleet.services.dashboard.charts import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    ChartAxis,
    ChartLine,
    ChartPanel,
    Drawing,
    around,
    loss_axis,
    percent,
    rounded,
    smoothed,
)
from zerofleet.services.dashboard.frame import Frame, Visit, asked_choice, hidden_heading, there_are
from zerofleet.services.dashboard.run_page import CURVES_SECONDS, Scale, TimeScale
from zerofleet.services.dashboard.run_queries import CurveReader, RunCurves
from zerofleet.services.dashboard.sources import ComparedRun, SharedReading
from zerofleet.services.dashboard.toolkit import Table, TableColumn, events, ui

_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, RED, GREY)
MOST_RUNS = len(_COLOURS)
_SHOWN_AT_FIRST = 3
_HOURS = ("hours", 3_600_000.0)
_MINUTES = ("minutes", 60_000.0)
_MOST_MINUTES = 180  # longer runs are drawn over hours
_SCALES: dict[Scale, str] = {
    "time": "Time",
    "steps": "Steps",
    "games": "Games",
    "cpu": "CPU-seconds",
}
_ALONE = (
    "There is no other run of this game here. To compare data folders, start "
    "`zerofleet page RUN --with OTHER`. Runs of the same database appear here automatically."
)


def add_runs_page(frame: Frame) -> None:
    """Register the page."""

    @frame.page("/runs", "Runs", "runs", "axis")
    async def _(visit: Visit) -> None:
        hidden_heading("Compare runs")
        RunsView(visit, await visit.sources.compared_runs(visit.run))


@dataclass(frozen=True, slots=True)
class OverlaidRun:
    """The data of one run, and its colour.

    Args:
        usage: times in seconds since 1970 with the CPU-seconds until then.
    """

    label: str
    colour: str
    curves: RunCurves
    usage: Sequence[tuple[float, float]] = ()

    def line(
        self,
        scale: Scale,
        rows: Sequence[Any],
        value: Callable[[Any], float | None],
        suffix: str = "",
        *,
        unit_ms: float = 1.0,
        dashed: bool = False,
        smooth: bool = False,
    ) -> list[ChartLine]:
        """Return the line through the rows that have a value; empty if there are none.

        Args:
            scale: scale of the x axis; time begins with the run's first data.
            rows: rows, each with ``at``.
            value: returns the value of a row.
            suffix: follows the name of the run.
            unit_ms: milliseconds in a unit of time.
        """
        points = TimeScale(scale, self.curves, self.usage).points(rows, value)
        if scale == "time" and points:
            began = points[0][0] if self.began_ms is None else self.began_ms
            points = [(rounded((x - began) / unit_ms, 5), y) for x, y in points]
        if smooth:
            points = smoothed(points)
        name = f"{self.label}{suffix}"
        return (
            [ChartLine(name, points, self.colour, dashed=dashed, dots=not smooth)] if points else []
        )

    @property
    def began_ms(self) -> float | None:
        """Time of the first data, in milliseconds since 1970; None: there is one moment at most."""
        return TimeScale("time", self.curves).ends[0]

    @property
    def span_ms(self) -> float:
        """Milliseconds from the first data to the last."""
        began, ended = TimeScale("time", self.curves).ends
        return 0.0 if began is None or ended is None else ended - began


@dataclass(frozen=True, slots=True)
class RunsDrawings:
    """Draws the panels.

    Args:
        runs: runs in the order of the legend.
        scale: scale of all x axes.
        smooth: smooth the losses.
    """

    runs: Sequence[OverlaidRun]
    scale: Scale = "time"
    smooth: bool = True

    @property
    def _unit(self) -> tuple[str, float]:
        """Unit of time with its milliseconds, the same in all charts."""
        longest = max((run.span_ms for run in self.runs), default=0.0)
        return _HOURS if longest > _MOST_MINUTES * _MINUTES[1] else _MINUTES

    def _lines(
        self,
        run: OverlaidRun,
        rows: Sequence[Any],
        value: Callable[[Any], float | None],
        suffix: str = "",
        **style: bool,
    ) -> list[ChartLine]:
        return run.line(self.scale, rows, value, suffix, unit_ms=self._unit[1], **style)

    def exam(self, kind: str) -> Drawing:
        """Draw the error rates of one kind of positions: with search, and of the network only."""
        lines: list[ChartLine] = []
        for run in self.runs:
            rows = [row for row in run.curves.exams if cast("Any", row).kind == kind]
            lines += self._lines(run, rows, lambda row: percent(row.error_rate))
            lines += self._lines(
                run,
                rows,
                lambda row: percent(row.prior_error_rate),
                ", network only",
                dashed=True,
            )
        y = ChartAxis(name=f"errors, % of {exam_unit([kind])}", least=0)
        return Drawing(lines, self._axis, y)

    def elo(self) -> Drawing:
        """Draw Elo of promoted models, each run relative to its own oldest rated model."""
        lines = [
            line
            for run in self.runs
            for line in self._lines(
                run,
                run.curves.ratings,
                lambda row: None if row.elo is None else round(row.elo, 1),
            )
        ]
        values = [y for line in lines for _, y in line.points]
        return Drawing(lines, self._axis, around(values, "Elo", 100))

    def loss(self, column: str, unit: str) -> Drawing:
        """Draw a loss on validation games; on training games for a run without them."""
        read: Callable[[Any], float | None] = attrgetter(column)

        def value(row: Any) -> float | None:  # noqa: ANN401
            found = read(row)
            return None if found is None else rounded(found)

        lines: list[ChartLine] = []
        for run in self.runs:
            held_out = run.curves.held_out
            lines += self._lines(
                run,
                held_out or run.curves.trained,
                value,
                "" if held_out else ", training games",
                dashed=not held_out,
                smooth=self.smooth,
            )
        return Drawing(lines, self._axis, loss_axis(lines, unit))

    @property
    def _axis(self) -> ChartAxis:
        if self.scale == "time":
            return ChartAxis("value", f"{self._unit[0]} since the start of each run", least=0)
        return TimeScale(self.scale, RunCurves()).axis


class RunsView:
    """The panels on one page; a person chooses the runs and the x axis.

    Args:
        choices: runs of one game, the shown run first.
    """

    def __init__(self, visit: Visit, choices: Sequence[ComparedRun]) -> None:
        self._visit = visit
        self._choices = {each.label: each for each in choices}
        self._curves: dict[str, RunCurves] = {}
        self._usage: dict[str, Sequence[tuple[float, float]]] = {}
        self._ends: dict[str, list[Callable[[], None]]] = {}
        """For each chosen run, the functions that end its readings."""
        self._scale = cast("Scale", asked_choice(visit, "axis", _SCALES, "time"))
        self._smooth = True
        chosen = self._requested_runs()
        with ui.element("div").classes("zf-tools"):
            ui.toggle(dict(_SCALES), value=self._scale, on_change=self._choose_scale).props(
                'dense no-caps unelevated aria-label="x axis"'
            )
            ui.switch("Smoothed", value=True, on_change=self._choose_smooth).props("dense")
        with ui.element("div").classes("zf-tools").props('role="group" aria-label="Runs"'):
            for label in self._choices:
                ui.checkbox(
                    label, value=label in chosen, on_change=partial(self._choose_run, label)
                ).props("dense")
        self._words = ui.label().classes("zf-note").props('role="status"')
        self._place = ui.element("div").classes("zf-panels")
        with self._place:
            self._panels = list(self._make_panels(visit.run.game))
            with ui.element("section").classes("zf-panel zf-wide"):
                ui.label("Keys that differ").classes("zf-title").props(
                    'role="heading" aria-level="2"'
                )
                self._differences = ui.element("div")
        for label in chosen:
            self._begin(label)
        self._show()

    def _requested_runs(self) -> list[str]:
        """Return the runs that the address names; without any, the first ones."""
        text = self._visit.parameters.get("runs", "")
        wanted = [each for each in text.split(",") if each]
        unknown = [each for each in wanted if each not in self._choices]
        if unknown:
            self._visit.note(
                f"runs={unknown[0][:80]} does not exist, or plays another game. "
                f"{there_are(self._choices)}"
            )
        known = [each for each in dict.fromkeys(wanted) if each in self._choices]
        if len(known) > MOST_RUNS:
            self._visit.note(
                f"The address names {len(known)} runs. The first {MOST_RUNS} are shown."
            )
        if known:
            return known[:MOST_RUNS]
        # The shown run comes first, then the runs of `zerofleet page --with`.
        first = sorted(
            self._choices,
            key=lambda label: (label != self._visit.run.name, not self._is_elsewhere(label)),
        )
        named = sum(map(self._is_elsewhere, self._choices)) + 1
        return first[: min(MOST_RUNS, max(_SHOWN_AT_FIRST, named))]

    def _is_elsewhere(self, label: str) -> bool:
        return self._choices[label].is_elsewhere

    def _make_panels(
        self, game: str
    ) -> Sequence[tuple[ChartPanel, Callable[[RunsDrawings], Drawing]]]:
        """Make the panels, each with the function that draws it."""
        found: list[tuple[ChartPanel, Callable[[RunsDrawings], Drawing]]] = []

        def panel(
            draw: Callable[[RunsDrawings], Drawing], title: str, empty: str, note: str
        ) -> None:
            found.append((ChartPanel(title, empty, note=note), draw))

        for kind in position_kinds(game) if has_exam(game) else ():
            panel(
                partial(RunsDrawings.exam, kind=kind),
                f"Exam errors: {POSITION_WORDS[kind]}",
                "Appears with the first exam of a chosen run.",
                "How often the model plays worse than perfect play. Dashed: network only.",
            )
        panel(
            RunsDrawings.elo,
            "Elo of promoted models",
            "Appears when a promoted model of a chosen run has played rating games.",
            "Relative to the oldest rated model of each run, so compare the shape and not the "
            "height. A match between the runs compares their strength.",
        )
        for column, title, unit in (
            ("policy_loss", "Policy loss", "nats"),
            ("value_loss", "Value loss", "squared error"),
        ):
            panel(
                partial(RunsDrawings.loss, column=column, unit=unit),
                f"{title}, validation games",
                "Appears with the first measurement of a chosen run.",
                "Measured on each run's own games, so a lower line is not always a better network.",
            )
        return found

    def _begin(self, label: str) -> None:
        """Read the curves of a run for as long as it is chosen."""
        choice = self._choices[label]
        reader = CurveReader(choice.sources, choice.run.name)
        key = f"{choice.label} elsewhere" if choice.is_elsewhere else choice.run.name
        reading: SharedReading[RunCurves] = self._visit.frame.reading(
            (key, "curves"), reader.read, CURVES_SECONDS, keep=True, is_loading=RunCurves.is_loading
        )
        usage: SharedReading[Sequence[tuple[float, float]]] = self._visit.frame.reading(
            (key, "usage"), choice.usage, CURVES_SECONDS
        )
        ends = self._ends[label] = []
        with self._place:
            ends.append(self._visit.watch(reading, partial(self._take, self._curves, label)))
            ends.append(self._visit.watch(usage, partial(self._take, self._usage, label)))

    def _take(self, target: dict[str, Any], label: str, value: object) -> None:
        if label in self._ends:
            target[label] = value
            self._show()

    def _show(self) -> None:
        colours = dict(zip(self._chosen, _COLOURS, strict=False))
        shown = [
            OverlaidRun(label, colour, self._curves[label], self._usage.get(label, ()))
            for label, colour in colours.items()
            if label in self._curves
        ]
        by_cpu = [run for run in shown if run.usage]
        drawings = RunsDrawings(
            by_cpu if self._scale == "cpu" else shown, self._scale, self._smooth
        )
        for panel, draw in self._panels:
            panel.show(draw(drawings))
        self._words.set_text(self._note(shown))
        self._show_differences()

    @property
    def _chosen(self) -> list[str]:
        return [label for label in self._choices if label in self._ends]

    def _note(self, shown: Sequence[OverlaidRun]) -> str:
        if len(self._choices) == 1:
            return _ALONE
        without = [run.label for run in shown if not run.usage]
        if self._scale == "cpu" and without:
            return (
                f"CPU-seconds are not known for {', '.join(without)}. Only `zerofleet up` records "
                "them, in the data folder of its run."
            )
        loading = [run.label for run in shown if run.curves.is_loading()]
        return f"Loading the games of {', '.join(loading)}." if loading else ""

    def _show_differences(self) -> None:
        """Show the keys in which the chosen runs differ."""
        configs = {label: self._choices[label].run.config for label in self._chosen}
        known = {label: run_values(run) for label, run in configs.items() if run is not None}
        columns = [TableColumn("key", "Key"), *(TableColumn(f"run {n}", n) for n in known)]
        rows = [
            {"key": key, **{f"run {name}": value_words(value) for name, value in values.items()}}
            for key, values in differing_keys(known).items()
        ]
        unknown = [label for label, run in configs.items() if run is None]
        words = "The run files of the chosen runs differ in no key."
        if len(known) < 2:
            words = "Choose at least two runs."
        if unknown:
            names = ", ".join(unknown)
            words += (
                f" Another version of zerofleet stored the keys of {names}: they are not shown."
            )
        self._differences.clear()
        with self._differences:
            Table(columns, words).show(rows)

    def _choose_run(self, label: str, event: events.ValueChangeEventArguments[bool | None]) -> None:
        if event.value and label not in self._ends:
            if len(self._ends) == MOST_RUNS:
                event.sender.set_value(False)
                ui.notify(f"At most {MOST_RUNS} runs are shown at once. Clear another one first.")
                return
            self._begin(label)
        elif not event.value and label in self._ends:
            for end in self._ends.pop(label):
                end()
            for target in (self._curves, self._usage):
                target.pop(label, None)
        self._changed()

    def _choose_scale(self, event: events.ValueChangeEventArguments[str]) -> None:
        self._scale = cast("Scale", event.value)
        self._changed()

    def _choose_smooth(self, event: events.ValueChangeEventArguments[bool | None]) -> None:
        self._smooth = bool(event.value)
        self._show()

    def _changed(self) -> None:
        """Draw the chosen runs, and put the choice into the address."""
        self._show()
        axis = None if self._scale == "time" else self._scale
        runs = ",".join(self._chosen) or None
        ui.navigate.history.replace(self._visit.link("/runs", runs=runs, axis=axis))
