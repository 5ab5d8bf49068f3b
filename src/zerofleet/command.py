"""The program ``zerofleet``: its commands, where what they need is installed."""

from __future__ import annotations

import sys


def main() -> None:
    """Run a command, or say what to install for it: the plain package is a client alone."""
    try:
        from zerofleet.cli import main as run
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("zerofleet."):
            raise
        print(  # noqa: T201
            f"zerofleet: the commands need {error.name}, which is not there: "
            "pip install 'zerofleet[fleet]' ('zerofleet[local]' for zerofleet up)",
            file=sys.stderr,
        )
        sys.exit(2)
    run()
