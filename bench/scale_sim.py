"""Does the autoscaler size a fleet well? A simulation, with the rule that runs on clusters.

A fleet begins with one worker and one inference replica, and its trainer wants as many positions as
1 to 10,000 workers make. Pods take a while to start, are preempted, are killed by half; inference
replicas are lost; models are published; figures are missing for five minutes. KEDA and the
HorizontalPodAutoscaler do as their documentation says; docs/autoscaling.md says what is modelled.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import cast

from bench.report import Row, positive, show, told
from bench.scale_plot import Panel, picture
from bench.scale_run import Trace
from bench.scale_table import (
    CPU,
    FAULTS,
    FEW_REPLICAS,
    SIZES,
    WAYS,
    cases,
    play_through,
)

_COLUMNS = {
    "way": ("way", ""),
    "demand": ("size", ",d"),
    "fault": ("fault", ""),
    "of use": ("wanted", ",.0f"),
    "converged, min": ("converged_minutes", ".0f"),
    "workers": ("workers", ",.1f"),
    "most": ("most_workers", ",d"),
    "inference": ("replicas", ".1f"),
    "fill": ("fill", ".2f"),
    "wait/compute": ("wait", ".2f"),
    "trainer waits": ("trainer_waits", ".1%"),
    "unused": ("unused", ".1%"),
    "lost": ("lost", ".2%"),
    "reversals": ("reversals", "d"),
    "largest": ("largest_reversal", ".0%"),
}


def main() -> None:
    """Play the scenarios through and print a line for each."""
    options = _options()
    wanted = list(cases(options.sizes, options.faults, options.ways))
    rows, traces = list[Row](), list[tuple[Row, Trace]]()
    for case in wanted:
        row, trace = play_through(case, options.hours, options.seed)
        rows.append(row)
        traces.append((row, trace))
    if options.markdown:
        print("\n".join(_markdown(rows)))
    else:
        show(rows, "scaling a fleet", _COLUMNS, as_json=options.json)
    if options.plot is not None:
        options.plot.write_text(_picture(traces), encoding="utf-8")


def _options() -> argparse.Namespace:
    found = argparse.ArgumentParser(
        prog="python -m bench.scale_sim",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--sizes", type=positive(int), nargs="+", default=list(SIZES))
    found.add_argument(
        "--faults",
        choices=[*FAULTS, FEW_REPLICAS, CPU],
        nargs="+",
        default=[*FAULTS, FEW_REPLICAS],
        metavar="FAULT",
    )
    found.add_argument("--ways", choices=WAYS, nargs="+", default=[WAYS[0]], metavar="WAY")
    found.add_argument("--hours", type=positive(float), default=3.0, help="of each [3]")
    found.add_argument("--seed", type=int, default=1, help="equal seeds, equal figures [1]")
    found.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw the workers over time")
    found.add_argument("--markdown", action="store_true", help="the table as the docs have it")
    found.add_argument("--json", action="store_true", help="one object a line")
    return found.parse_args()


def _markdown(rows: list[Row]) -> list[str]:
    lines = ["| " + " | ".join(_COLUMNS) + " |", "|---" * len(_COLUMNS) + "|"]
    for row in rows:
        cells = (
            "-" if row[field] is None else format(row[field], form)
            for field, form in _COLUMNS.values()
        )
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _picture(traces: list[tuple[Row, Trace]]) -> str:
    panels = [
        Panel(
            f"{row['way']}: {row['size']:,}, {row['fault']}",
            trace.seconds,
            trace.asked,
            trace.workers,
            cast("float", row["wanted"]),
        )
        for row, trace in traces
    ]
    return picture(panels, columns=min(3, len(panels)))


if __name__ == "__main__":
    told(main)
