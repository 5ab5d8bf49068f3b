"""Judge new models: ``python -m services.evaluator RUN_FILE``."""

from __future__ import annotations

import asyncio
import sys

from services.evaluator.service import serve
from services.evaluator.settings import EvaluatorSettings
from zerofleet import telemetry
from zerofleet.config import load_run, read_settings
from zerofleet.errors import ConfigError


def main() -> None:
    """Read the settings, then serve until SIGTERM."""
    try:
        settings = read_settings(EvaluatorSettings, sys.argv[1:])
        telemetry.configure("evaluator", level=settings.log_level)
        asyncio.run(serve(load_run(settings.run_file), settings))
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
