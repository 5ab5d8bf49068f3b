"""The page of a comparison: one HTML file with tables and curves, which loads nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from zerofleet.comparison.comparison_result import (
    HEADINGS,
    notes,
    opponent_rows,
    question_words,
    table_rows,
)
from zerofleet.config.differences import value_words

_STYLE = """
:root { color-scheme: light dark; --page: #f6f7f9; --surface: #fff; --text: #1c2128;
  --faint: #5b6472; --line: #dde1e7; --c0: #2f6db3; --c1: #b35c00; --c2: #1e7f4f; --c3: #7a5cc0;
  --c4: #c0392b; --c5: #5b6472; }
@media (prefers-color-scheme: dark) { :root { --page: #14171b; --surface: #1d2127;
  --text: #e4e7eb; --faint: #9aa4b2; --line: #343a43; --c0: #6ba6e8; --c1: #e39a4b; --c2: #5cc08d;
  --c3: #b09af0; --c4: #ef7b6f; --c5: #9aa4b2; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.45 system-ui,
  -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  font-variant-numeric: tabular-nums; }
main { max-width: 1180px; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.35rem; margin: .4rem 0; } h2 { font-size: 1.05rem; margin: 1.4rem 0 .5rem; }
section { background: var(--surface); border: 1px solid var(--line); border-radius: 6px;
  padding: .8rem 1rem; overflow-x: auto; }
table { border-collapse: collapse; } th, td { padding: .25rem .7rem; text-align: right;
  border-bottom: 1px solid var(--line); white-space: nowrap; vertical-align: top; }
th { color: var(--faint); font-weight: 600; } td:nth-child(-n+2), th:nth-child(-n+2),
td.left, th.left { text-align: left; }
td.value { white-space: normal; overflow-wrap: anywhere; max-width: 24rem; }
.clear, .group { font-weight: 600; } .faint, p { color: var(--faint); } p { margin: .35rem 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr));
  gap: 1rem; }
figure { margin: 0; } figcaption { font-weight: 600; }
svg { width: 100%; height: auto; display: block; } svg text { font-size: 12px; fill: var(--faint); }
polyline { fill: none; stroke-width: 2; stroke-linejoin: round; } .grid { stroke: var(--line); }
.legend span { margin-right: 1.2rem; white-space: nowrap; }
.legend i { display: inline-block; width: 1.4em; height: .25em; margin-right: .4em;
  vertical-align: middle; border-radius: 2px; }
"""
_COLOURS = 6
_CHART = (520.0, 240.0)
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 14.0, 12.0, 40.0
_TICKS = 5
_MOST_DOTS = 40  # points of a curve that are also drawn as dots
_DASHES = ("", "6 3", "2 3", "9 3 2 3")  # by seed


@dataclass(frozen=True, slots=True)
class _Curve:
    """The values of one training over CPU-seconds."""

    run: int
    seed: int
    label: str
    points: Sequence[tuple[float, float]]


def page_of(results: dict[str, Any]) -> str:
    """Return the page as HTML.

    Args:
        results: results as JSON, from ``results_of``.
    """
    runs: list[str] = results["runs"]
    title = f"{results['game']}: {' | '.join(runs)}"
    parts = [f"<h1>{escape(title)}</h1>"]
    parts += [f"<p>{escape(note)}</p>" for note in notes(results)]
    parts.append(_section("Results", _results_table(results)))
    if results["opponents"]:
        headings = ("run", "seed", "opponent", "games", "won", "drawn", "lost")
        parts.append(
            _section("Games against other opponents", _table(headings, opponent_rows(results)))
        )
    parts.append(_section("Keys that differ", _differences(results)))
    parts.append(_section("Curves over CPU-seconds", _charts(results)))
    parts.append(
        f'<p class="faint">zerofleet {escape(results["zerofleet"])}, <code>zerofleet compare</code>'
        ". The figures of every published model are in results.json next to this page.</p>"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def _section(heading: str, content: str) -> str:
    return f"<h2>{escape(heading)}</h2>\n<section>{content}</section>"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], style: str = "") -> str:
    head = "".join(f'<th scope="col">{escape(each)}</th>' for each in headings)
    body = "".join(
        f"<tr>{''.join(f'<td{style}>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _results_table(results: dict[str, Any]) -> str:
    shown = len(HEADINGS) if len(results["runs"]) > 1 else 3
    head = "".join(f'<th scope="col">{escape(each)}</th>' for each in HEADINGS[:shown])
    lines: list[str] = []
    above = ""
    for row in table_rows(results):
        is_clear = row[-1] not in ("", "not clear", "one seed")
        style = ' class="group"' if not row[1] else ' class="clear"' if is_clear else ""
        shown_cells = ("" if row[0] == above else row[0], *row[1:shown])
        above = row[0]
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in shown_cells)
        lines.append(f"<tr{style}>{cells}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _differences(results: dict[str, Any]) -> str:
    runs: list[str] = results["runs"]
    rows = [
        (key, *(value_words(values[name]) for name in runs))
        for key, values in results["differences"].items()
    ]
    if not rows:
        return "<p>There is no second run.</p>"
    return _table(("key", *runs), rows, ' class="left value"')


def _charts(results: dict[str, Any]) -> str:
    runs: list[str] = results["runs"]
    legend = "".join(
        f'<span><i style="background: var(--c{place % _COLOURS})"></i>{escape(name)}</span>'
        for place, name in enumerate(runs)
    )
    wanted = {"policy_loss": "Policy loss (validation)", "value_loss": "Value loss (validation)"}
    questions = {row["question"]: question_words(row["question"]) for row in results["exam"]}
    wanted |= {name: words.capitalize() for name, words in questions.items()}
    figures: list[str] = []
    for name, words in wanted.items():
        curves = [
            _Curve(
                runs.index(each["run"]),
                results["seeds"].index(each["seed"]),
                f"{each['run']}, seed {each['seed']}",
                [
                    (row["cpu_seconds"], row[name])
                    for row in each["rows"]
                    if row.get(name) is not None
                ],
            )
            for each in results["trainings"]
        ]
        if any(curve.points for curve in curves):
            chart = _chart(words, curves, is_share="@" in name)
            figures.append(f"<figure><figcaption>{escape(words)}</figcaption>{chart}</figure>")
    return (
        f'<p class="legend">{legend}</p><p>One line for each seed; later seeds are dashed. Losses '
        "are measured on each run's own validation games, so compare their shape rather than their "
        f'height.</p><div class="charts">{"".join(figures)}</div>'
    )


def _chart(title: str, curves: Sequence[_Curve], *, is_share: bool) -> str:
    """Return an inline SVG of curves; ``is_share`` labels the axis in percent."""
    width, height = _CHART
    points = [point for curve in curves for point in curve.points]
    x_ticks = _ticks(0.0, max(x for x, _ in points))
    low = 0.0 if is_share else min(y for _, y in points)
    y_ticks = _ticks(low, max(y for _, y in points))

    def at(x: float, y: float) -> tuple[float, float]:
        across = (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])
        up = (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])
        return (
            _LEFT + across * (width - _LEFT - _RIGHT),
            height - _BOTTOM - up * (height - _TOP - _BOTTOM),
        )

    lines: list[str] = []
    for tick in y_ticks:
        y = at(x_ticks[0], tick)[1]
        label = f"{100 * tick:.4g}%" if is_share else f"{tick:.4g}"
        lines.append(
            f'<line class="grid" x1="{_LEFT}" x2="{width - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
        )
    for tick in x_ticks:
        x = at(tick, y_ticks[0])[0]
        lines.append(
            f'<text x="{x:.1f}" y="{height - _BOTTOM + 16}" text-anchor="middle">{tick:,.6g}</text>'
        )
    lines.append(
        f'<text x="{(_LEFT + width - _RIGHT) / 2}" y="{height - 6}" text-anchor="middle">'
        "CPU-seconds</text>"
    )
    for curve in curves:
        places = [at(*point) for point in curve.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        dash = _DASHES[curve.seed % len(_DASHES)]
        lines.append(
            f'<polyline points="{path}" stroke="var(--c{curve.run % _COLOURS})"'
            f"{f' stroke-dasharray={chr(34)}{dash}{chr(34)}' if dash else ''}>"
            f"<title>{escape(curve.label)}</title></polyline>"
        )
        if len(places) <= _MOST_DOTS:
            lines += [
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="var(--c{curve.run % _COLOURS})"/>'
                for x, y in places
            ]
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{escape(title)} over CPU-seconds">{"".join(lines)}</svg>'
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return round values at equal distances that enclose an interval; at least two."""
    span = high - low or abs(high) or 1.0
    raw = span / _TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= raw)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [step * each for each in range(first, max(last, first + 1) + 1)]
