"""The commands a person types.

Each command is one file. A command imports its dependencies when it runs, so that ``zerofleet
--help`` answers at once.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import typer
from typer.core import TyperCommand

from zerofleet import __version__
from zerofleet.cli.check_game import check_game
from zerofleet.cli.check_network import check_network
from zerofleet.cli.compare import SeveralValues, compare
from zerofleet.cli.exam import exam
from zerofleet.cli.export import export
from zerofleet.cli.fork import fork
from zerofleet.cli.gtp import gtp
from zerofleet.cli.import_games import import_games
from zerofleet.cli.match import match
from zerofleet.cli.migrate import migrate
from zerofleet.cli.page import OneRun, page
from zerofleet.cli.pgn import pgn
from zerofleet.cli.play import play
from zerofleet.cli.redis_acl import redis_acl
from zerofleet.cli.rollback import rollback
from zerofleet.cli.sgf import sgf
from zerofleet.cli.sql import sql
from zerofleet.cli.status import status
from zerofleet.cli.terminal import echo
from zerofleet.cli.token import token
from zerofleet.cli.uci import uci
from zerofleet.cli.up import up
from zerofleet.errors import ConfigError, ZerofleetError
from zerofleet.printable import printable_lines

_HELP = """Train AlphaZero-style players for two-player board games.

Start with: zerofleet up runs/tictactoe.toml --until goal
"""

app = typer.Typer(
    name="zerofleet",
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
)
_EXAMPLES: dict[Callable[..., None], str] = {
    up: "zerofleet up runs/connect_four.toml --until 1h",
    fork: "zerofleet fork connect_four --to bigger.toml",
    import_games: "zerofleet import games/*.sgf --run go9.toml",
    page: "zerofleet page connect_four",
    status: "zerofleet status --watch",
    sql: "zerofleet sql -c 'SELECT count(*) FROM games'",
    play: "zerofleet play connect_four --second",
    gtp: "zerofleet gtp go9 --simulations 400",
    uci: "zerofleet uci runs/chess.toml",
    export: "zerofleet export connect_four --format parquet --limit 10000",
    sgf: "zerofleet sgf go9 --last 10 --folder games",
    pgn: "zerofleet pgn runs/chess.toml --last 10 --folder games",
    exam: "zerofleet exam connect_four --model all",
    match: "zerofleet match 12 8 --games 100",
    compare: "zerofleet compare connect_four --set search.c_puct=2 --cpu-seconds 600 --seeds 1 2",
    check_game: "zerofleet check-game python:domineering:Domineering",
    check_network: "zerofleet check-network runs/my-network.toml",
    migrate: "zerofleet migrate --database-url postgresql://owner@db/zerofleet",
    rollback: "zerofleet rollback connect_four --to 12",
    token: "zerofleet token ada --role viewer --tokens roles.toml",
    redis_acl: "zerofleet redis-acl --passwords secrets > users.acl",
}
"""The commands in the order of the help, each with an example."""
_CLASSES: dict[Callable[..., None], type[TyperCommand]] = {compare: SeveralValues, page: OneRun}
for command, example in _EXAMPLES.items():
    # The name of a function cannot be a word of Python's.
    name = "import" if command is import_games else None
    command_class = _CLASSES.get(command, TyperCommand)
    app.command(name, cls=command_class, epilog=f"\b\nExample:\n  {example}")(command)


def _version(wanted: bool) -> None:
    if wanted:
        echo(f"zerofleet {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Options before the command."""


def main() -> None:
    """Run a command; an error is one line on stderr and exit status 2 (1 for a failed service)."""
    try:
        _run()
    except ZerofleetError as error:
        from zerofleet.local.supervisor import ProgramFailedError  # only a failure needs it

        echo(f"zerofleet: {_shown(str(error))}", err=True)
        failed = isinstance(error, ProgramFailedError)
        sys.exit(error.exit_code if failed else ConfigError.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


def _shown(text: str) -> str:
    """Return a message that is safe to print: without control characters and very long words.

    Messages repeat text from people, files and other programs.
    """
    return re.sub(r"\S{400,}", lambda long: f"{long[0][:200]}...", printable_lines(text))


def _run() -> None:
    try:
        app()
    except RuntimeError as error:  # raised by the core for an error in a game's class
        from zerofleet.games.python_game import raise_failure_in

        raise_failure_in(error)
        raise
