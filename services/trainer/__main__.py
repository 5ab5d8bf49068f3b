"""``python -m services.trainer RUN_FILE``; where stores and folders are: ``ZEROFLEET_*``."""

from __future__ import annotations

import signal
import sys
from threading import Event
from types import FrameType

from zerofleet import games
from zerofleet.config import ProcessSettings, load_run, read_settings
from zerofleet.errors import ConfigError, ZerofleetError


def main() -> int:
    """Train until SIGTERM or SIGINT; returns the exit status."""
    stop = Event()

    def leave(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    try:
        settings = read_settings(ProcessSettings, sys.argv[1:])
        run = load_run(settings.run_file)
        games.spec(run.game.name)
        # Only now: torch takes a second to import, and bad input need not wait for it.
        from services.trainer.service import serve

        serve(run, settings, stop)
    except ZerofleetError as error:
        sys.stderr.write(f"trainer: {error}\n")
        return error.exit_code if isinstance(error, ConfigError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
