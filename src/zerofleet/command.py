"""The program ``zerofleet``: its commands, if their dependencies are installed."""

from __future__ import annotations

import sys


def main() -> None:
    """Run a command, or print what to install: the plain package contains only the client."""
    try:
        from zerofleet.cli import main as run
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("zerofleet."):
            raise
        print(  # noqa: T201
            f"zerofleet: the commands need {error.name}, which is not installed: "
            "pip install 'zerofleet[fleet]' ('zerofleet[local]' for zerofleet up)",
            file=sys.stderr,
        )
        sys.exit(2)
    run()
