"""Several GPUs: one process for each, all behind one address."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import Process
from collections.abc import Sequence

import structlog

from zerofleet.errors import ConfigError
from zerofleet.rpc.server import check_free
from zerofleet.services.inference.settings import InferenceSettings

_log = structlog.get_logger()

_KILL_SECONDS = 10.0  # beyond the time that a process may drain


async def serve_several(
    settings: InferenceSettings, devices: Sequence[int], stop: asyncio.Event
) -> int:
    """Run one process for each device until ``stop`` is set or one of them ends.

    Returns:
        0 after ``stop``; else the status of the process that ended, which has said why, or 1. The
        others were stopped.

    Raises:
        ConfigError: their address cannot be shared.
    """
    _check(settings)
    processes = [await _start(settings, number, device) for number, device in enumerate(devices)]
    waits = [asyncio.create_task(process.wait()) for process in processes]
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({*waits, stopping}, return_when=asyncio.FIRST_COMPLETED)
        ended = [
            (device, process.returncode)
            for device, process in zip(devices, processes, strict=True)
            if process.returncode is not None
        ]
    finally:
        stopping.cancel()
        await _stop(processes, settings.inference_drain_seconds + _KILL_SECONDS)
    if stop.is_set():
        return 0
    device, status = ended[0]
    _log.error("device_process_ended", device=device, status=status)
    return status if status and status > 0 else 1


def _check(settings: InferenceSettings) -> None:
    address = settings.listen_address
    host, _, port = address.rpartition(":")
    if address.startswith("unix:") or not host or port == "0":
        raise ConfigError(
            f"ZEROFLEET_DEVICES = '{settings.devices}' needs a host and a port to share: "
            f"ZEROFLEET_LISTEN_ADDRESS = '{address}' is none"
        )
    check_free(address)  # a server of another user may share its port, too


async def _start(settings: InferenceSettings, number: int, device: int) -> Process:
    environment = {
        **os.environ,
        "ZEROFLEET_DEVICES": str(device),
        "ZEROFLEET_SHARE_PORT": "true",
    }
    if settings.worker is not None:
        environment["ZEROFLEET_WORKER"] = f"{settings.worker}-{device}"
    for name, place in (("METRICS", settings.metrics_address), ("HEALTH", settings.health_address)):
        if place is not None:
            variable = f"ZEROFLEET_{name}_ADDRESS"
            environment[variable] = _next(variable, place, number)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "zerofleet.services.inference", str(settings.run_file)),
        env=environment,
    )
    _log.info("device_process", device=device, pid=process.pid)
    return process


def _next(variable: str, address: str, number: int) -> str:
    """The first process has the address itself, the others the ports after it.

    Raises:
        ConfigError: it is no ``host:port``.
    """
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdecimal() and len(port) <= 5):
        raise ConfigError(f"{variable} = '{address}': give host:port")
    return f"{host}:{int(port) + number}"


async def _stop(processes: Sequence[Process], seconds: float) -> None:
    """SIGTERM to all, then SIGKILL to those that have not ended in time."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
    try:
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(process.wait() for process in processes))
    except TimeoutError:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()
