"""Draw the plots of the documentation: ``docs/data/NAME.csv`` becomes ``docs/images/NAME.svg``.

``python scripts/plots.py`` writes the plots; ``--check`` only compares them with the committed
ones. A plot follows the reader's light or dark colours. The comment lines of a CSV file say which
command made its data. The script needs nothing but Python, and the same data give the same bytes.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
DATA = DOCS / "data"
IMAGES = DOCS / "images"

# Light and dark, as on the dashboard.
COLOURS = {
    "surface": ("#ffffff", "#1d2127"),
    "text": ("#1c2128", "#e4e7eb"),
    "faint": ("#5b6472", "#9aa4b2"),
    "line": ("#dde1e7", "#343a43"),
    "blue": ("#2f6db3", "#6ba6e8"),
    "orange": ("#b35c00", "#e39a4b"),
    "green": ("#1e7f4f", "#5cc08d"),
    "purple": ("#7a5cc0", "#b09af0"),
    "red": ("#c0392b", "#ef7b6f"),
    "grey": ("#8a93a1", "#7d8795"),
}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
WIDTH = 760.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 176.0, 88.0, 56.0  # around the area of the axes
HEIGHT = 290.0  # between the axes
ROW = 20.0  # height of a row of a plot with rows
LINE_HEIGHT = 16.0  # lines of text, at least this far apart


Rows = list[dict[str, str]]


@dataclass
class Drawing:
    """The elements of one picture, and its frame."""

    title: str
    subtitle: str
    height: float = TOP + HEIGHT + BOTTOM
    elements: list[str] = field(default_factory=list[str])

    def text(
        self, x: float, y: float, words: str, style: str = "faint", anchor: str = "start"
    ) -> None:
        """Add a line of text; ``style`` is a class of the style sheet."""
        self.elements.append(
            f'<text x="{x:.1f}" y="{y:.1f}" class="{style}" text-anchor="{anchor}">'
            f"{escape(words)}</text>"
        )

    def line(self, points: Sequence[tuple[float, float]], style: str = "line") -> None:
        """Add a line through points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.elements.append(f'<polyline points="{path}" class="s-{style}"/>')

    def dot(self, x: float, y: float, colour: str, radius: float = 3.0) -> None:
        """Add a filled circle."""
        self.elements.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="{colour}"/>')

    def box(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """Add a filled rectangle."""
        self.elements.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'class="{colour}"/>'
        )

    def __str__(self) -> str:
        """Return the SVG file."""
        light = _style(light for light, _ in COLOURS.values())
        dark = _style(dark for _, dark in COLOURS.values())
        size = f"{WIDTH:g} {self.height:g}"
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" '
            f'width="{WIDTH:g}" height="{self.height:g}" role="img" '
            f'aria-label="{escape(self.title)}">\n<style>\n'
            f"text {{ font: 12.5px {FONT}; }}\n"
            "text.title { font-size: 16px; font-weight: 600; }\n"
            "polyline { fill: none; stroke-width: 1; stroke-linejoin: round; }\n"
            f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n</style>"
        )
        frame = [
            f'<rect width="{WIDTH:g}" height="{self.height:g}" rx="6" class="surface"/>',
            f'<text x="20" y="30" class="title text">{escape(self.title)}</text>',
            f'<text x="20" y="51" class="faint">{escape(self.subtitle)}</text>',
        ]
        return "\n".join([head, *frame, *self.elements, "</svg>", ""])


def _style(colours: Iterable[str]) -> str:
    rules: list[str] = []
    for name, colour in zip(COLOURS, colours, strict=True):
        rules.append(f".{name} {{ fill: {colour}; }} .s-{name} {{ stroke: {colour}; }}")
        if name not in ("surface", "text", "faint", "line"):
            rules[-1] += f" .s-thick-{name} {{ stroke: {colour}; stroke-width: 2.2; }}"
            rules[-1] += f" .s-dashed-{name} {{ stroke: {colour}; stroke-dasharray: 5 4; }}"
    return "\n".join(rules)


@dataclass(frozen=True)
class Axis:
    """The values of an axis, and the marks on it."""

    label: str
    low: float
    high: float
    ticks: Sequence[float]
    log: bool = False
    unit: str = ""

    def share(self, value: float) -> float:
        """Return how far along the axis a value is, from 0 to 1."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def name(self, tick: float) -> str:
        """Return the label of a tick."""
        return f"{tick:,g}{self.unit}"


@dataclass(frozen=True)
class Series:
    """A named line of a plot."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    dots: bool = True


@dataclass
class Plot:
    """Axes and what is drawn between them."""

    drawing: Drawing
    x: Axis
    y: Axis
    top: float = TOP
    height: float = HEIGHT

    def __post_init__(self) -> None:
        """Draw the axes."""
        draw, bottom = self.drawing, self.top + self.height
        for tick in self.y.ticks:
            y = self.at(self.x.low, tick)[1]
            draw.line([(LEFT, y), (WIDTH - RIGHT, y)])
            draw.text(LEFT - 8, y + 4, self.y.name(tick), anchor="end")
        for tick in self.x.ticks:
            x = self.at(tick, self.y.low)[0]
            draw.line([(x, bottom), (x, bottom + 5)], "faint")
            draw.text(x, bottom + 20, self.x.name(tick), anchor="middle")
        draw.line([(LEFT, bottom), (WIDTH - RIGHT, bottom)], "faint")
        draw.text((LEFT + WIDTH - RIGHT) / 2, bottom + 40, self.x.label, anchor="middle")
        draw.text(LEFT, self.top - 9, self.y.label)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the place of a point."""
        return (
            LEFT + self.x.share(x) * (WIDTH - RIGHT - LEFT),
            self.top + (1 - self.y.share(y)) * self.height,
        )

    def lines(self, series: Sequence[Series]) -> None:
        """Draw series and name each one at its end."""
        ends: list[tuple[float, float, Series]] = []
        for each in series:
            places = [self.at(x, y) for x, y in each.points]
            self.drawing.line(places, f"thick-{each.colour}")
            if each.dots:
                for x, y in places:
                    self.drawing.dot(x, y, each.colour)
            ends.append((places[-1][1], places[-1][0], each))
        ends.sort(key=lambda end: end[0])
        heights = _apart([y for y, _, _ in ends])
        for y, (_, x, each) in zip(heights, ends, strict=True):
            self.drawing.text(x + 9, y + 4, each.name, each.colour)


@dataclass
class RowPlot:
    """Rows with a name on the left, and a common axis for the values of all rows.

    A row without values is a heading.
    """

    drawing: Drawing
    x: Axis
    rows: Sequence[str]
    left: float
    right: float = 30.0
    row: float = ROW

    def __post_init__(self) -> None:
        """Draw the axis and make the drawing as high as the rows need."""
        draw, bottom = self.drawing, self.bottom
        draw.height = bottom + BOTTOM
        for tick in self.x.ticks:
            x = self.at(tick, 0)[0]
            draw.line([(x, TOP), (x, bottom)])
            draw.text(x, bottom + 18, self.x.name(tick), anchor="middle")
        draw.text((self.left + WIDTH - self.right) / 2, bottom + 38, self.x.label, anchor="middle")

    @property
    def bottom(self) -> float:
        """Where the rows end."""
        return TOP + self.row * len(self.rows)

    def at(self, value: float, row: int) -> tuple[float, float]:
        """Return the place of a value in a row."""
        return (
            self.left + self.x.share(value) * (WIDTH - self.right - self.left),
            TOP + self.row * (row + 0.5),
        )

    def name(self, row: int, style: str = "faint") -> None:
        """Write the name of a row; a heading stands at the left edge."""
        y = self.at(self.x.low, row)[1] + 4
        if style == "faint":
            self.drawing.text(self.left - 10, y, self.rows[row], anchor="end")
        else:
            self.drawing.text(20, y, self.rows[row], style)

    def interval(self, row: int, value: float, error: float, colour: str, shift: float) -> None:
        """Draw a dot and two standard errors on each side."""
        x, y = self.at(value, row)
        low = self.at(max(value - 2 * error, self.x.low), row)[0]
        high = self.at(min(value + 2 * error, self.x.high), row)[0]
        self.drawing.line([(low, y + shift), (high, y + shift)], colour)
        self.drawing.dot(x, y + shift, colour)

    def bar(self, row: int, low: float, high: float, colour: str) -> None:
        """Draw a bar between two values."""
        (x, y), (end, _) = self.at(low, row), self.at(high, row)
        self.drawing.box(x, y - self.row * 0.35, end - x, self.row * 0.7, colour)


def _apart(heights: list[float]) -> list[float]:
    """Move labels, sorted by height, so far apart that none covers another."""
    moved = list(heights)
    for _ in range(100):
        for index, (upper, lower) in enumerate(pairwise(moved)):
            missing = LINE_HEIGHT - (lower - upper)
            if missing > 0.01:
                moved[index] -= missing / 2
                moved[index + 1] += missing / 2
    return moved


def rows_of(name: str) -> Rows:
    """Read a CSV file of ``docs/data`` without its comment lines."""
    lines = (DATA / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def points(rows: Rows, x: str, y: str) -> list[tuple[float, float]]:
    """Return two columns as points, without the rows in which one is empty."""
    return [(float(row[x]), float(row[y])) for row in rows if row[x] and row[y]]


def connect_four_hour() -> Drawing:
    """Draw the mistakes of an hour of Connect Four."""
    rows = rows_of("connect-four-hour")
    drawing = Drawing(
        "An hour of Connect Four on two CPU cores",
        "Share of test positions in which the move loses value, judged by an exact solver",
    )
    plot = Plot(
        drawing,
        Axis("minutes of training", 0, 60, range(0, 61, 10)),
        Axis("mistakes", 1, 64, (1, 2, 4, 8, 16, 32, 64), log=True, unit="%"),
    )
    plot.lines(
        [
            Series(
                "network only, good play", "grey", points(rows, "minute", "good_play_network_only")
            ),
            Series("with search, good play", "blue", points(rows, "minute", "good_play")),
            Series("with search, random play", "orange", points(rows, "minute", "random_play")),
        ]
    )
    return drawing


def chess_hours() -> Drawing:
    """Draw the mistakes of a run of chess over its CPU time."""
    rows = rows_of("chess-hours")
    plot = Plot(
        Drawing(
            "Chess: four hours on two CPU cores",
            "Share of test positions with a mistake: endgames judged by tables, and missed mates",
        ),
        Axis("CPU-hours of training", 0, 6, range(7)),
        Axis("mistakes", 2, 64, (2, 4, 8, 16, 32, 64), log=True, unit="%"),
    )
    plot.lines(
        [
            Series("mates in 1 to 3, with search", "orange", points(rows, "cpu_hours", "mates")),
            Series(
                "endgames, network only", "grey", points(rows, "cpu_hours", "endgames_network_only")
            ),
            Series("endgames, with search", "blue", points(rows, "cpu_hours", "endgames")),
        ]
    )
    return plot.drawing


def regret_hour() -> Drawing:
    """Draw how the regret of self-play falls over an hour of Connect Four."""
    rows = rows_of("regret-hour")
    plot = Plot(
        Drawing(
            "An hour of Connect Four with restarts",
            "Largest regret of a game, mean over the games of each model",
        ),
        Axis("minutes of training", 0, 60, range(0, 61, 10)),
        Axis("regret", 0, 0.6, (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)),
    )
    plot.lines(
        [
            Series(f"seed {seed}", colour, points(_only(rows, seed=seed), "minute", "regret"))
            for seed, colour in (("1", "blue"), ("2", "orange"))
        ]
    )
    return plot.drawing


def peers() -> Drawing:
    """Draw the mistakes of three programs over CPU time."""
    rows = rows_of("peers")
    plot = Plot(
        Drawing(
            "Connect Four: three programs, equal CPU time",
            "Mistakes in positions of random play; one core, the same search of 100 simulations",
        ),
        Axis("CPU-seconds of training", 120, 2_000, (150, 300, 600, 1_200, 1_800), log=True),
        Axis("mistakes", 1, 16, (1, 2, 4, 8, 16), log=True, unit="%"),
    )
    names = {
        "openspiel": ("OpenSpiel AlphaZero", "purple"),
        "mctx": ("loop around Mctx", "orange"),
        "zerofleet 1": ("zerofleet, seed 1", "blue"),
        "zerofleet 2": ("zerofleet, seed 2", "green"),
    }
    plot.lines(
        [
            Series(name, colour, points(_only(rows, program=key), "cpu_seconds", "random_play"))
            for key, (name, colour) in names.items()
        ]
    )
    return plot.drawing


def go9() -> Drawing:
    """Draw Elo and the score against GNU Go of a run of 9x9 Go."""
    rows, height = rows_of("go9"), 170.0
    drawing = Drawing(
        "Go on 9x9: 96 minutes on two CPU cores",
        "All games with 64 simulations per move",
        height=TOP + 2 * height + BOTTOM + 68,
    )
    minutes = Axis("", 0, 100, range(0, 101, 20))
    elo = Plot(drawing, minutes, Axis("Elo", 0, 800, range(0, 801, 200)), height=height)
    elo.lines([Series("rated models", "blue", points(rows, "minute", "elo"))])
    score = Plot(
        drawing,
        Axis("minutes of training", 0, 100, range(0, 101, 20)),
        Axis("score in 20 games against GNU Go", 0, 100, (0, 25, 50, 75, 100), unit="%"),
        top=TOP + height + 68,
        height=height,
    )
    score.lines(
        [
            Series("level 1", "green", points(rows, "minute", "gnugo_1")),
            Series("level 10", "orange", points(rows, "minute", "gnugo_10")),
        ]
    )
    return drawing


def with_headings(
    rows: Rows, heading: str, name: Callable[[dict[str, str]], str]
) -> list[tuple[str, dict[str, str] | None]]:
    """Return names and rows, with a name without a row before the first row of each heading."""
    entries: list[tuple[str, dict[str, str] | None]] = []
    begun = set[str]()
    for row in rows:
        if row[heading] not in begun:
            begun.add(row[heading])
            entries.append((row[heading], None))
        entries.append((name(row), row))
    return entries


def settings() -> Drawing:
    """Draw the score of each changed setting against the recommended one."""
    entries = with_headings(rows_of("settings"), "game", lambda row: row["change"])
    plot = RowPlot(
        Drawing(
            "What one changed setting is worth",
            "Match against the recommended setting, equal CPU time; two seeds, ± 2 standard errors",
        ),
        Axis(
            "score in a match; left of 50% the change is worse", 0, 100, range(0, 101, 25), unit="%"
        ),
        [name for name, _ in entries],
        left=280,
    )
    even = plot.at(50, 0)[0]
    plot.drawing.line([(even, TOP), (even, plot.bottom)], "faint")
    for number, (_, row) in enumerate(entries):
        plot.name(number, "faint" if row else "text")
        if row:
            plot.interval(number, float(row["score_1"]), float(row["error_1"]), "blue", -4)
            plot.interval(number, float(row["score_2"]), float(row["error_2"]), "orange", 4)
    return plot.drawing


def throughput() -> Drawing:
    """Draw what of ONNX Runtime's rate is left over gRPC."""
    rows = rows_of("throughput")
    plot = RowPlot(
        Drawing(
            "Predictions in self-play, as a share of ONNX Runtime alone",
            "Bar: over gRPC. Dot: in one process. Rates per CPU-second, on the H200 per second",
        ),
        Axis("share of one ONNX Runtime session", 0, 120, range(0, 121, 20), unit="%"),
        [f"{row['where']}: {row['network']}" for row in rows],
        left=230,
        right=40,
        row=28,
    )
    for number, row in enumerate(rows):
        plot.name(number)
        plot.bar(number, 0, float(row["share"]), "blue" if row["where"] == "CPU" else "green")
        if row["in_process"]:
            plot.drawing.dot(*plot.at(float(row["in_process"]), number), "orange", 5)
        x, y = plot.at(float(row["share"]), number)
        rate = f"{int(row['over_grpc']):,} per s"
        plot.drawing.text(x - 10, y + 4, rate, "surface", anchor="end")
    return plot.drawing


def search_latency() -> Drawing:
    """Draw how long a search takes, for one client and for eight at once."""
    rows = rows_of("search-latency")
    alone, at_once = _only(rows, clients="1"), _only(rows, clients="8")
    entries = with_headings(
        alone, "network", lambda row: f"{int(row['simulations']):,} simulations"
    )
    eight = {(row["network"], row["simulations"]): row for row in at_once}
    plot = RowPlot(
        Drawing(
            "How long a search takes",
            "Dot: median. Line: to the 95th percentile. Blue: one client. Orange: eight at once",
        ),
        Axis(
            "milliseconds from the request over gRPC to the answer",
            10,
            10_000,
            (10, 100, 1_000, 10_000),
            log=True,
        ),
        [name for name, _ in entries],
        left=180,
    )
    for number, (_, row) in enumerate(entries):
        plot.name(number, "faint" if row else "text")
        if row:
            for each, colour, shift in (
                (row, "blue", -4),
                (eight[row["network"], row["simulations"]], "orange", 4),
            ):
                x, y = plot.at(float(each["p50_ms"]), number)
                end = plot.at(float(each["p95_ms"]), number)[0]
                plot.drawing.line([(x, y + shift), (end, y + shift)], colour)
                plot.drawing.dot(x, y + shift, colour)
    return plot.drawing


def cpu_time() -> Drawing:
    """Draw the share of each service in the CPU time."""
    rows = rows_of("cpu-time")
    services = [name for name in rows[0] if name != "run"]
    colours = ("blue", "orange", "green", "purple", "red", "grey")
    plot = RowPlot(
        Drawing(
            "Where the CPU time goes",
            "Runs on two CPU cores, all services on one machine",
        ),
        Axis("share of the CPU time", 0, 100, range(0, 101, 20), unit="%"),
        [row["run"] for row in rows] + [""],
        left=120,
        row=44,
    )
    for number, row in enumerate(rows):
        plot.name(number)
        total, low = sum(float(row[name]) for name in services), 0.0
        for name, colour in zip(services, colours, strict=True):
            high = low + 100 * float(row[name]) / total
            plot.bar(number, low, high, colour)
            low = high
    x, y = plot.at(0, len(rows))
    for name, colour in zip(services, colours, strict=True):
        plot.drawing.box(x, y - 6, 12, 12, colour)
        plot.drawing.text(x + 18, y + 4, name, "text")
        x += 44 + 7 * len(name)
    return plot.drawing


def autoscaling() -> Drawing:
    """Draw the workers of simulated fleets over time."""
    rows = rows_of("autoscaling")
    plot = Plot(
        Drawing(
            "Autoscaling to 1,000 workers, simulated",
            "Self-play workers that run; after 100 minutes half are killed, or demand halves",
        ),
        Axis("minutes", 0, 180, range(0, 181, 30)),
        Axis("workers", 0, 1_200, range(0, 1_201, 200)),
    )
    series = {
        "none": ("no fault", "blue"),
        "storm": ("half are killed", "orange"),
        "halved": ("demand halves", "green"),
        "few_replicas": ("half the inference", "purple"),
    }
    plot.lines(
        [
            Series(name, colour, points(rows, "minute", key), dots=False)
            for key, (name, colour) in series.items()
        ]
    )
    return plot.drawing


def settle_time() -> Drawing:
    """Draw how long the fleet takes to settle after each fault."""
    rows = rows_of("settle-time")
    plot = RowPlot(
        Drawing(
            "Seconds until the fleet works again, by fault",
            "Dot: median. Line: longest of about 28 rounds. Four fleets shared two cores",
        ),
        Axis("seconds after the end of the fault", 0, 90, range(0, 91, 15)),
        [row["fault"] for row in rows],
        left=216,
        row=17,
    )
    for number, row in enumerate(rows):
        plot.name(number)
        (median, y), (longest, _) = (
            plot.at(float(row[key]), number) for key in ("median", "longest")
        )
        plot.drawing.line([(median, y), (longest, y)], "blue")
        plot.drawing.dot(median, y, "blue", 4)
    return plot.drawing


def disk() -> Drawing:
    """Draw the size of the database over a month."""
    rows = rows_of("disk")
    plot = Plot(
        Drawing(
            "Size of the database over a month",
            "A run that plays 1,000,000 moves an hour; computed from measured bytes per move",
        ),
        Axis("days", 0, 30, range(0, 31, 5)),
        Axis("GB", 0, 225, range(0, 226, 25)),
    )
    plot.lines(
        [
            Series("retention.forget off", "orange", points(rows, "day", "everything"), dots=False),
            Series("window of 4 days", "blue", points(rows, "day", "window_of_4_days"), dots=False),
            Series("defaults", "green", points(rows, "day", "defaults"), dots=False),
        ]
    )
    return plot.drawing


def healthy_and_narrow() -> Drawing:
    """Draw the unique games of a healthy run and of a narrow one."""
    rows = rows_of("healthy-and-narrow")
    plot = Plot(
        Drawing(
            "A healthy run and one that repeats itself",
            "Connect Four: share of each model's games that differ from all others",
        ),
        Axis("games played", 40_000, 190_000, range(50_000, 190_001, 25_000)),
        Axis("unique games", 0, 100, (0, 25, 50, 75, 100), unit="%"),
    )
    plot.lines(
        [
            Series("random openings", "blue", points(rows, "games", "unique_with_openings")),
            Series("no random openings", "orange", points(rows, "games", "unique_without")),
        ]
    )
    return plot.drawing


def _only(rows: Rows, **wanted: str) -> Rows:
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


PLOTS: dict[str, Callable[[], Drawing]] = {
    "connect-four-hour": connect_four_hour,
    "chess-hours": chess_hours,
    "regret-hour": regret_hour,
    "go9": go9,
    "peers": peers,
    "settings": settings,
    "throughput": throughput,
    "search-latency": search_latency,
    "cpu-time": cpu_time,
    "autoscaling": autoscaling,
    "settle-time": settle_time,
    "disk": disk,
    "healthy-and-narrow": healthy_and_narrow,
}


def main() -> int:
    """Write or compare the plots, and return the exit status of the process."""
    stale = 0
    for name, draw in PLOTS.items():
        path = IMAGES / f"{name}.svg"
        picture = str(draw())
        if "--check" not in sys.argv:
            path.write_text(picture, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != picture:
            print(f"{path.name} is stale: run scripts/plots.py", file=sys.stderr)
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
