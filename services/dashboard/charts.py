"""The style of all charts: ECharts options for lines, areas, bars and marks, in light and dark.

Charts are SVG, so that their colours are the variables of style.css and follow light and dark.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from zerofleet.services.dashboard.toolkit import events, ui

BLUE, ORANGE, GREEN, RED, PURPLE, GREY = (
    f"var(--zf-{name})" for name in ("blue", "orange", "green", "red", "purple", "grey")
)
_TEXT, _FAINT, _LINE, _SURFACE = (
    f"var(--zf-{name})" for name in ("text", "faint", "line", "surface")
)

Point = tuple[float, float]
Options = dict[str, Any]

_NUMBER = (
    'value => typeof value === "number" '
    "? value.toLocaleString(undefined, { maximumSignificantDigits: 4 }) : value"
)
_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif'
_TIMES = {
    "year": "{yyyy}",
    "month": "{d} {MMM}",
    "day": "{d} {MMM}",
    "hour": "{HH}:{mm}",
    "minute": "{HH}:{mm}",
    "second": "{HH}:{mm}:{ss}",
}
TIME_NAME = "time, UTC"
# up to this many points are also dots: a line of one point, or between two gaps, is invisible
FEW_POINTS = 10
_SMOOTHING = 0.9  # weight of the earlier values in a smoothed line
_PARTS = 4  # parts of an axis whose ends are given
_LABELS_APART = 10  # height of a chart in labels: levels closer than one label share it
_TOP, _LEGEND_LINE = 46, 17  # pixels above the plot with a legend of one line; of a further line
_MARK, _LETTER = 44, 6.6  # pixels of a mark in the legend with its gaps, and of a letter
_LEGEND_LINES = 4  # a longer legend is scrolled
_LEGEND_WIDTHS = (240, 280, 320, 380, 460, 540, 760)  # widths of a chart, in pixels
_SHORT = (
    'value => Math.abs(value) >= 1e6 ? value / 1e6 + "M" '
    ': Math.abs(value) >= 1e4 ? value / 1e3 + "k" : value.toLocaleString(undefined, '
    "{ maximumSignificantDigits: 6 })"
)


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One line of a chart."""

    name: str
    points: Sequence[Point]
    colour: str
    dashed: bool = False
    faint: bool = False
    """Drawn behind the others, and not in the legend."""
    dots: bool = False
    """Draw a dot at each point."""
    area: bool = False
    """Fill the area, and stack it on the other areas."""
    columns: bool = False
    """Draw an upright column at each point instead of a line."""
    band: Sequence[tuple[float, float, float]] = ()
    """Interval around the line: x, low, high."""

    def series(self) -> list[Options]:
        """Return the options for ECharts."""
        line: Options = {
            "name": self.name,
            "type": "line",
            "data": [list(point) for point in self.points],
            "color": self.colour,
            "showSymbol": self.dots or len(self.points) <= FEW_POINTS,
            "symbol": "circle",
            "symbolSize": 5,
            "lineStyle": {
                "width": 1 if self.faint or self.area else 2,
                "type": [4, 3] if self.dashed else "solid",  # two dashes fit in the legend
                "opacity": 0.3 if self.faint else 1,
            },
            "emphasis": {"disabled": True},
        }
        if self.columns:
            line |= {"type": "bar", "barMaxWidth": 28, "barGap": "10%"}
        if self.faint:
            line |= {"tooltip": {"show": False}, "silent": True}
        if self.area:
            line |= {"areaStyle": {"color": self.colour, "opacity": 0.55}, "stack": "areas"}
        return [line, *self._band()] if self.band else [line]

    def _band(self) -> list[Options]:
        """Return the band as an invisible line at its low end, and an area stacked on it."""
        edge: Options = {
            "name": self.name,
            "type": "line",
            "stack": f"band of {self.name}",
            "stackStrategy": "all",  # also below zero
            "color": self.colour,
            "symbol": "none",
            "lineStyle": {"opacity": 0},
            "emphasis": {"disabled": True},
            "tooltip": {"show": False},
            "silent": True,
            "z": 1,
        }
        return [
            {**edge, "data": [[x, low] for x, low, _ in self.band]},
            {
                **edge,
                "data": [[x, high - low] for x, low, high in self.band],
                "areaStyle": {"color": self.colour, "opacity": 0.18},
            },
        ]


@dataclass(frozen=True, slots=True)
class ChartAxis:
    """One of the two axes."""

    kind: Literal["value", "time", "log", "category"] = "value"
    name: str = ""
    """Name with its unit."""
    least: float | None = None
    """Start of the axis; None: chosen from the values."""
    most: float | None = None
    categories: Sequence[str] = ()
    whole: bool = False
    """The axis shows counts: no labels between whole numbers."""

    def options(self, *, upright: bool) -> Options:
        """Return the options for ECharts."""
        found: Options = {
            "type": self.kind,
            "name": self.name,
            "nameLocation": "end" if upright else "middle",
            "nameGap": 10 if upright else 26,
            "nameTextStyle": {"color": _FAINT, "align": "left" if upright else "center"},
            "axisLine": {"show": not upright, "lineStyle": {"color": _LINE}},
            "axisTick": {"show": False},
            "axisLabel": {"color": _FAINT, "hideOverlap": True, "fontSize": 11},
            "splitLine": {"show": upright, "lineStyle": {"color": _LINE, "width": 1}},
            "splitNumber": 4,
            "scale": True,
        }
        if self.kind == "time":
            found["axisLabel"]["formatter"] = _TIMES
            found["axisPointer"] = {"label": {"formatter": "{value} UTC"}}  # in the tooltip
        if self.kind == "value" and not upright:
            label = {"precision": 0, "formatter": f"{self.name}: {{value}}"}
            found["axisPointer"] = {"label": label}
        if self.kind == "log":
            found["logBase"] = 2
        if self.kind in ("value", "log"):
            found["axisLabel"][":formatter"] = _SHORT
        if self.kind == "category":
            found["data"] = list(self.categories)
        if self.least is not None:
            found["min"] = self.least
        if self.most is not None:
            found["max"] = self.most
        if self.whole:
            found["minInterval"] = 1
        elif self.kind == "value" and self.least is not None and self.most is not None:
            found["interval"] = (self.most - self.least) / _PARTS
        return found


@dataclass(frozen=True, slots=True)
class Drawing:
    """The content of a chart."""

    lines: Sequence[ChartLine]
    x: ChartAxis
    y: ChartAxis
    levels: dict[str, float] = field(default_factory=dict[str, float])
    """Horizontal dashed lines, by name."""
    moments: Sequence[float] = ()
    """Vertical thin lines at these x."""

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to show yet."""
        return not any(line.points for line in self.lines)

    def options(self) -> Options:
        """Return the options for ECharts."""
        series = [each for line in self.lines for each in line.series()]
        if series and (self.levels or self.moments):
            series[0]["markLine"] = self._marks()
        named = [line.name for line in self.lines if not line.faint]
        return {
            **frame_options(named),
            "xAxis": self.x.options(upright=False),
            "yAxis": self.y.options(upright=True),
            "series": series,
        }

    def _marks(self) -> Options:
        levels = [
            {
                "yAxis": level,
                "name": ", ".join(names),
                "label": {
                    "formatter": "{b}",
                    # The name of the axis is above the highest level.
                    "position": "insideEndBottom" if level == self.y.most else "insideEndTop",
                    "color": _FAINT,
                    "show": bool(names),
                },
                "lineStyle": {"color": GREY, "type": "dashed", "width": 1},
            }
            for level, names in self._named_levels()
        ]
        moments = [
            {"xAxis": x, "label": {"show": False}, "lineStyle": {"color": GREY, "opacity": 0.35}}
            for x in self.moments
        ]
        return {
            "symbol": "none",
            "silent": True,
            "animation": False,
            "lineStyle": {"type": "solid", "width": 1},
            "data": [*levels, *moments],
        }

    def _named_levels(self) -> list[tuple[float, list[str]]]:
        """Return the levels downwards with their names; levels too close together share a label."""
        span = (self.y.most or 0.0) - (self.y.least or 0.0)
        found: list[tuple[float, list[str]]] = []
        for name, level in sorted(self.levels.items(), key=lambda pair: -pair[1]):
            head = next((each for each in reversed(found) if each[1]), None)
            if head is not None and head[0] - level < span / _LABELS_APART:
                head[1].append(name)
                found.append((level, []))
            else:
                found.append((level, [name]))
        return found


def frame_options(named: Sequence[str]) -> Options:
    """Return the options that all charts share.

    Args:
        named: names in the legend; a single name needs no legend.
    """
    legend: Options = {
        "show": len(named) > 1,
        "data": list(named),
        "top": 0,
        "left": 0,
        "itemGap": 10,
        "itemWidth": 26,
        "itemHeight": 7,
        "textStyle": {"color": _FAINT},
        "inactiveColor": _LINE,
    }
    return {
        "animation": False,
        "useUTC": True,  # as all times on the pages
        "textStyle": {"fontFamily": _FONT},
        "grid": {"left": 8, "right": 26, "top": _TOP, "bottom": 26, "containLabel": True},
        "legend": legend,
        "tooltip": {
            "trigger": "axis",
            "confine": True,
            "backgroundColor": _SURFACE,
            "borderColor": _LINE,
            "textStyle": {"color": _TEXT, "fontSize": 12},
            "axisPointer": {"lineStyle": {"color": GREY}},
            ":valueFormatter": _NUMBER,
        },
        "media": _legend_media(legend) if len(named) > 1 else [],
    }


def _legend_media(legend: Options) -> list[Options]:
    """Return options by the chart's width: a legend of a few lines is shown in full.

    ECharts replaces a legend when its type changes, so each entry has all options of the legend.
    """
    found: list[Options] = []
    for narrowest, width in itertools.pairwise((*_LEGEND_WIDTHS, math.inf)):
        lines = _legend_lines(legend["data"], narrowest)
        kind = "plain" if lines <= _LEGEND_LINES else "scroll"
        top = _TOP + _LEGEND_LINE * (lines - 1 if kind == "plain" else 0)
        option: Options = {"legend": {**legend, "type": kind}, "grid": {"top": top}}
        # An option without a query applies at any width. Of several that match, the last one wins.
        query = {} if width == math.inf else {"query": {"maxWidth": width}}
        found.insert(0, {**query, "option": option})
    return found


def _legend_lines(named: Sequence[str], width: float) -> int:
    """Return the number of lines that a legend needs at a width in pixels."""
    lines, used = 1, 0.0
    for name in named:
        wide = _MARK + _LETTER * len(name)
        if used and used + wide > width:
            lines, used = lines + 1, 0.0
        used += wide
    return lines


class ChartPanel:
    """A titled panel with a chart, or with a text while there is nothing to show.

    The chart is made when the browser has joined the page: its data is the largest part of a page,
    and a page may be fetched and never joined.

    Args:
        title: title with the unit, if there is one.
        empty: text that says what will appear, and when.
        note: one sentence on how to read it.
        wide: use the whole width.
        on_point: called with the x of a point that is clicked.
    """

    def __init__(
        self,
        title: str,
        empty: str,
        *,
        note: str = "",
        wide: bool = False,
        on_point: Callable[[float], None] | None = None,
    ) -> None:
        self._options: Options | None = None
        self._on_point = on_point
        with ui.element("section").classes(f"zf-panel{' zf-wide' if wide else ''}") as self.element:
            with ui.element("div").classes("zf-panel-head"):
                ui.label(title).classes("zf-title").props('role="heading" aria-level="2"')
                self.controls = ui.element("div").classes("zf-controls")
            self._empty = ui.label(empty).classes("zf-empty")
            self._place = ui.element("div").classes("zf-chart-place")
            self._note = ui.label(note).classes("zf-note")
        self._chart: ui.echart | None = None
        self._later: Options | None = None
        self._client = ui.context.client
        self._client.on_connect(self._joined)

    def note(self, text: str) -> None:
        """Set another sentence below the chart."""
        self._note.set_text(text)

    def show(self, drawing: Drawing) -> None:
        """Draw a chart unless it is unchanged; without any point show the text again."""
        if not drawing.is_empty:
            self.show_options(drawing.options())
        elif self._chart is not None or self._later is not None:
            self._options = self._later = None
            self._place.classes(remove="zf-chart")
            self._empty.set_visibility(True)
            if self._chart is not None:
                self._chart.set_visibility(False)

    def show_options(self, options: Options) -> None:
        """Draw a chart with its own options."""
        if options == self._options:
            return
        self._empty.set_visibility(False)
        if not self._client.has_socket_connection:
            self._later = options
            self._place.classes("zf-chart")  # so that nothing moves when it is drawn
            return
        self._options = options
        if self._chart is None:
            with self._place:
                self._chart = ui.echart(
                    options,
                    renderer="svg",
                    on_point_click=self._clicked if self._on_point else None,
                ).classes("zf-chart")
            return
        self._chart.options.clear()
        self._chart.options.update(options)
        self._chart.set_visibility(True)
        self._chart.update()

    def _joined(self) -> None:
        later, self._later = self._later, None
        if later is not None:
            self._place.classes(remove="zf-chart")
            self.show_options(later)

    def _clicked(self, event: events.EChartPointClickEventArguments) -> None:
        value = cast("object", event.value)
        x = cast("list[object]", value)[0] if isinstance(value, list) and value else None
        if self._on_point is not None and isinstance(x, int | float):
            self._on_point(float(x))


def around(values: Sequence[float], name: str, step: float) -> ChartAxis:
    """Return an axis in four parts that holds all values; labels are multiples of the step."""
    if not values:
        return ChartAxis(name=name)
    part = step * max(1, math.floor((max(values) - min(values)) / (4 * step)))
    while (least := math.floor(min(values) / part) * part) + 4 * part < max(values):
        part += step
    return ChartAxis(name=name, least=least, most=least + 4 * part)


def loss_axis(lines: Sequence[ChartLine], unit: str) -> ChartAxis:
    """Return a logarithmic axis that holds all values above 0."""
    values = [y for line in lines for _, y in line.points if y > 0]
    least, most = (
        (rounded(0.95 * min(values), 2), rounded(1.05 * max(values), 2)) if values else (1, 2)
    )
    return ChartAxis("log", unit, least=least, most=most)


def smoothed(points: Sequence[Point]) -> list[Point]:
    """Return the exponential mean of the values up to each point, without a bias to the first."""
    total = weight = 0.0
    found: list[Point] = []
    for x, y in points:
        total = _SMOOTHING * total + y
        weight = _SMOOTHING * weight + 1
        found.append((x, rounded(total / weight)))
    return found


def rounded(value: float, digits: int = 4) -> float:
    """Round to few digits: more cannot be seen, and take time to send."""
    return float(f"{value:.{digits}g}")


def percent(share: float | None) -> float | None:
    """Return a share in percent."""
    return None if share is None else rounded(100 * share)
