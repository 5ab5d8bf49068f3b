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
LEFT, RIGHT, TOP, BOTTOM = 64.0, 176.0, 74.0, 56.0  # around the area of the axes
LINE_HEIGHT = 16.0  # lines of text, at least this far apart


Rows = list[dict[str, str]]


@dataclass
class Drawing:
    """The elements of one picture, and its frame."""

    title: str
    subtitle: str
    height: float = 420.0
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

    def __post_init__(self) -> None:
        """Draw the axes."""
        draw = self.drawing
        bottom = draw.height - BOTTOM
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

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the place of a point."""
        bottom = self.drawing.height - BOTTOM
        return (
            LEFT + self.x.share(x) * (WIDTH - RIGHT - LEFT),
            bottom - self.y.share(y) * (bottom - TOP),
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


PLOTS: dict[str, Callable[[], Drawing]] = {
    "connect-four-hour": connect_four_hour,
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
