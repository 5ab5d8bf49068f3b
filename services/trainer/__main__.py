"""Run the trainer: ``python -m zerofleet.services.trainer RUN_FILE``.

Environment variables ``ZEROFLEET_*`` name its folders and stores.
"""

from __future__ import annotations

import asyncio

from zerofleet.config import ProcessSettings, RunConfig
from zerofleet.service import run_service


async def _serve(run: RunConfig, settings: ProcessSettings, stop: asyncio.Event) -> None:
    # Imported here because torch takes a second to import: bad input is refused before that.
    from zerofleet.services.trainer.service import serve

    await serve(run, settings, stop)


if __name__ == "__main__":
    run_service("trainer", ProcessSettings, _serve)
