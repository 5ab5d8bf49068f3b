"""The inference service alone, for as long as somebody plays."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Generator

from zerofleet.errors import ConfigError
from zerofleet.local.folder import DataFolder
from zerofleet.local.process import start_child, stop_child
from zerofleet.local.programs import Surroundings, inference_address
from zerofleet.local.running import Running
from zerofleet.local.stores import StoreUrls
from zerofleet.rpc.client import InferenceClient

_READY_SECONDS = 60.0


@contextlib.contextmanager
def lone_inference(folder: DataFolder, running: Running) -> Generator[str]:
    """An inference service over running stores, with the best model loaded; its address.

    Raises:
        ConfigError: it ends, or does not get ready.
    """
    address = inference_address(None)
    urls = StoreUrls(running.database_urls, running.redis_url)
    program = Surroundings(folder, urls, address).inference()
    process = start_child(program.arguments, program.environment, program.log)
    try:
        deadline = time.monotonic() + _READY_SECONDS
        while not asyncio.run(_is_ready(address)):
            if process.poll() is not None or time.monotonic() > deadline:
                reason = next(iter(program.last_log_lines(1)), "it says nothing")
                raise ConfigError(f"the inference service does not start: {reason}")
            time.sleep(0.1)
        yield address
    finally:
        stop_child(process)


async def _is_ready(address: str) -> bool:
    async with InferenceClient(address) as client:
        return await client.server_ready()
