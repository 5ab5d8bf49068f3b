"""``python -m zerofleet.services.trainer RUN_FILE``, with folders and stores in ``ZEROFLEET_*``."""

from __future__ import annotations

import asyncio

from zerofleet.config import ProcessSettings, RunConfig
from zerofleet.service import run_service


async def _serve(run: RunConfig, settings: ProcessSettings, stop: asyncio.Event) -> None:
    # Only now: torch takes a second to import, and bad input need not wait for it.
    from zerofleet.services.trainer.service import serve

    await serve(run, settings, stop)


if __name__ == "__main__":
    run_service("trainer", ProcessSettings, _serve)
