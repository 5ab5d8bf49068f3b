"""What commands print."""

from __future__ import annotations

import typer

from zerofleet.printable import printable_lines


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text that may come from another process or from a database.

    Args:
        text: printed without control characters.
        err: print to standard error.
        nl: end with a line break.
    """
    typer.echo(printable_lines(text), err=err, nl=nl)
