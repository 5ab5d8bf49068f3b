"""Command lines and output that the benchmarks share: options, lines of JSON, and tables."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from bench.workloads import workload
from zerofleet.errors import ConfigError, ZerofleetError

WIDTH = 160
"""Least width of a table in characters; most terminals are narrower and would cut numbers off."""

GAME_HELP = "connect_four, go9, tic_tac_toe, chess, or any game such as 'go(size=13)'"

Row = dict[str, object]
"""One result, by field."""

Columns = Mapping[str, tuple[str, str]]
"""Field of a row and its format, by heading. Columns of text have an empty format."""


def parser(
    module: str, doc: str | None, *, game: bool = True, blocks: bool = True
) -> argparse.ArgumentParser:
    """Return a command line with the options that benchmarks share.

    Args:
        module: full name of the benchmark's module.
        doc: description above the options.
        game: add the argument GAME.
        blocks: add ``--seconds`` and ``--blocks``.
    """
    command_line = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if game:
        command_line.add_argument("workload", metavar="GAME", type=workload, help=GAME_HELP)
    if blocks:
        command_line.add_argument(
            "--seconds", type=positive(float), default=1.0, help="seconds per block [%(default)s]"
        )
        command_line.add_argument(
            "--blocks", type=positive(int), default=5, help="blocks of each path [%(default)s]"
        )
    command_line.add_argument("--json", action="store_true", help="print one JSON object per line")
    return command_line


def game_option(command_line: argparse.ArgumentParser) -> None:
    """Add the option ``--game``, for benchmarks that depend little on the game."""
    command_line.add_argument(
        "--game",
        dest="workload",
        metavar="GAME",
        type=workload,
        default="connect_four",
        help=f"{GAME_HELP} [connect_four]",
    )


def positive(kind: Callable[[str], float]) -> Callable[[str], float]:
    """Return a type for ``argparse`` that accepts numbers above 0.

    Args:
        kind: converts the text, such as ``int`` or ``float``.
    """

    def read(text: str) -> float:
        number = kind(text)
        if not number > 0:
            raise argparse.ArgumentTypeError(f"{text} is not above 0")
        return number

    read.__name__ = f"positive {kind.__name__}"  # argparse names it when the text is no number
    return read


def show(rows: Sequence[Row], title: str, columns: Columns, *, as_json: bool) -> None:
    """Print the results as a table, or as one JSON object per line.

    Args:
        title: above the table.
        columns: of the table, which has a dash where a row lacks the field.
        as_json: print all fields as JSON instead.
    """
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
    """Run a command; print an expected error in one line and exit with its status."""
    try:
        main()
    except ZerofleetError as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(error.exit_code if isinstance(error, ConfigError) else 1)
    except KeyboardInterrupt:
        sys.exit(130)
