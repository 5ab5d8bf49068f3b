"""``python -m services.trainer RUN_FILE``; where stores and folders are: ``ZEROFLEET_*``."""

from __future__ import annotations

import signal
import sys
from threading import Event
from types import FrameType

from services.trainer.service import serve
from zerofleet.config import ProcessSettings, read_settings
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
        serve(read_settings(ProcessSettings, sys.argv[1:]), stop)
    except ZerofleetError as error:
        sys.stderr.write(f"trainer: {error}\n")
        return error.exit_code if isinstance(error, ConfigError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
