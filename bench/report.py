"""Shared ends of all benchmarks: the command line, lines of JSON, a table for people."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from bench.workloads import workload
from zerofleet.errors import ConfigError, ZerofleetError

WIDTH = 160  # wider than most terminals: figures that are cut off are useless

GAME_HELP = "connect_four, go9, tic_tac_toe, chess, or any game such as 'go(size=13)'"

Row = dict[str, object]
Columns = Mapping[str, tuple[str, str]]
"""For each heading the field of a row and its format."""


def parser(module: str, doc: str | None, *, game: bool = True) -> argparse.ArgumentParser:
    """A command line with the options of every benchmark."""
    found = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if game:
        found.add_argument("workload", metavar="GAME", type=workload, help=GAME_HELP)
    found.add_argument("--seconds", type=positive(float), default=1.0, help="of a block [1]")
    found.add_argument("--blocks", type=positive(int), default=5, help="of each path [5]")
    found.add_argument("--json", action="store_true", help="one object a line")
    return found


def game_option(found: argparse.ArgumentParser) -> None:
    """For a benchmark in which the game is not the point."""
    found.add_argument(
        "--game",
        dest="workload",
        metavar="GAME",
        type=workload,
        default="connect_four",
        help=f"{GAME_HELP} [connect_four]",
    )


def positive(kind: Callable[[str], float]) -> Callable[[str], float]:
    """For ``argparse``: a number above 0."""

    def read(text: str) -> float:
        number = kind(text)
        if not number > 0:
            raise argparse.ArgumentTypeError(f"{text} is not above 0")
        return number

    read.__name__ = f"positive {kind.__name__}"  # argparse names it when the text is no number
    return read


def show(rows: Sequence[Row], title: str, columns: Columns, *, as_json: bool) -> None:
    """Print the results; a dash where a row has no such field."""
    if as_json:
        for row in rows:
            print(json.dumps(row), flush=True)
        return
    table = Table(title=title)
    for heading, (_, form) in columns.items():
        table.add_column(heading, justify="right" if form else "left")
    for row in rows:
        table.add_row(*(_cell(row.get(field), form) for field, form in columns.values()))
    Console(width=max(WIDTH, Console().width)).print(table)


def _cell(value: object, form: str) -> str:
    return "-" if value is None else format(value, form)


def run_main(main: Callable[[], None]) -> None:
    """Run a command, and report an error of the user in one line."""
    try:
        main()
    except ZerofleetError as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(error.exit_code if isinstance(error, ConfigError) else 1)
    except KeyboardInterrupt:
        sys.exit(130)
