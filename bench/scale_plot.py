"""Lines over time as an SVG picture: small panels, one for each simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT = 300, 170
_LEFT, _TOP, _RIGHT, _BOTTOM = 44, 26, 10, 24
_ASKED, _THERE, _WANTED = "#c0392b", "#2c6fbb", "#777777"


@dataclass(frozen=True, slots=True)
class Panel:
    """One simulation."""

    title: str
    seconds: Sequence[float]
    asked: Sequence[int]
    there: Sequence[int]
    wanted: float


def picture(panels: Sequence[Panel], columns: int) -> str:
    """The panels in rows, with what the lines mean below."""
    rows = -(-len(panels) // columns)
    width, height = columns * _WIDTH, rows * _HEIGHT + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for number, panel in enumerate(panels):
        x, y = number % columns * _WIDTH, number // columns * _HEIGHT
        parts += [f'<g transform="translate({x},{y})">', *_panel(panel), "</g>"]
    parts += [*_legend(height - 12), "</svg>"]
    return "\n".join(parts) + "\n"


def _panel(panel: Panel) -> list[str]:
    most_seconds = panel.seconds[-1]
    most = 1.1 * max(*panel.asked, *panel.there, panel.wanted)
    across, down = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(seconds: float) -> float:
        return _LEFT + across * seconds / most_seconds

    def y(count: float) -> float:
        return _TOP + down * (1 - count / most)

    def line(counts: Sequence[float], color: str, extra: str = "") -> str:
        points = " ".join(
            f"{x(panel.seconds[number]):.1f},{y(counts[number]):.1f}" for number in _corners(counts)
        )
        return f'<polyline fill="none" stroke="{color}" {extra} points="{points}"/>'

    parts = [f'<text x="{_LEFT}" y="16" font-weight="bold">{escape(panel.title)}</text>']
    for count in (0.0, panel.wanted):
        label = f"{count:,.0f}"
        parts.append(
            f'<text x="{_LEFT - 4}" y="{y(count) + 4:.1f}" text-anchor="end">{label}</text>'
        )
    hours = int(most_seconds // 3600)
    parts += [
        f'<text x="{x(3600.0 * hour):.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{hour} h</text>'
        for hour in range(hours + 1)
    ]
    parts.append(
        f'<path d="M{_LEFT} {_TOP}V{y(0):.1f}H{_WIDTH - _RIGHT}" fill="none" stroke="#999999"/>'
    )
    parts.append(line([panel.wanted] * len(panel.seconds), _WANTED, 'stroke-dasharray="4 3"'))
    parts.append(line(panel.asked, _ASKED, 'stroke-width="1.4"'))
    parts.append(line(panel.there, _THERE, 'stroke-width="1.4"'))
    return parts


def _corners(counts: Sequence[float]) -> list[int]:
    """The points that a line needs: not those with the same count on both sides."""
    last = len(counts) - 1
    return [
        number
        for number, count in enumerate(counts)
        if not 0 < number < last or (counts[number - 1], counts[number + 1]) != (count, count)
    ]


def _legend(y: int) -> list[str]:
    parts, x = list[str](), _LEFT
    for text, color in (
        ("replicas asked for", _ASKED),
        ("workers that play", _THERE),
        ("workers' worth of demand", _WANTED),
    ):
        parts.append(f'<rect x="{x}" y="{y - 4}" width="14" height="3" fill="{color}"/>')
        parts.append(f'<text x="{x + 18}" y="{y + 2}">{escape(text)}</text>')
        x += 170
    return parts
