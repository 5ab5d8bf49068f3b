"""The devices of the service: the provider that works here, and one process for each GPU.

Processes of several GPUs share one address.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from asyncio.subprocess import Process
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import structlog

from zerofleet.config import RunConfig
from zerofleet.errors import ConfigError, IncompatibleModelError, InferenceUnavailableError
from zerofleet.fleet.report import counted
from zerofleet.models.driver import device_count, gpu_of
from zerofleet.models.graph import Shape
from zerofleet.models.runtime import (
    CPU,
    Provider,
    choose,
    installed_runtimes,
    library_fault,
    load_cuda,
    offered_providers,
    only_errors,
)
from zerofleet.models.session import open_session
from zerofleet.rpc.server import check_free
from zerofleet.services.inference.settings import InferenceSettings

_log = structlog.get_logger()

# The readable part of a CUDA error. ONNX Runtime surrounds it with lines of its source code.
_CUDA_FAILURE = re.compile(r"\b[A-Z_]+ failure \d+: [^;]*[^; ]")
_KILL_SECONDS = 10.0  # beyond the time that a process may drain


# A model of one byte and one action: a convolution by 1/256, whose answer is logit and value.
# tests/unit/test_models_runtime.py writes it out with ONNX's own helper.
PROBE_MODEL = b64decode("""
CAk6nwMKJgoLb2JzZXJ2YXRpb24SBmZsb2F0cyIEQ2FzdCoJCgJ0bxgBoAECCiAKBmZsb2F0cwoFcGxhbmUSBnBsYW5l
cyIHUmVzaGFwZQohCgZwbGFuZXMKBmtlcm5lbBIJY29udm9sdmVkIgRDb252ChwKCWNvbnZvbHZlZBIGY29sdW1uIgdG
bGF0dGVuCigKBmNvbHVtbhINcG9saWN5X2xvZ2l0cyIEQ2FzdCoJCgJ0bxgKoAECCh4KBmNvbHVtbgoEZmxhdBIFdmFs
dWUiB1Jlc2hhcGUSBXByb2JlKhgIAQgBCAEIARABQgZrZXJuZWxKBAAAgDsqLQgEEAdCBXBsYW5lSiD//////////wEA
AAAAAAAAAQAAAAAAAAABAAAAAAAAACoUCAEQB0IEZmxhdEoI//////////9aIgoLb2JzZXJ2YXRpb24SEwoRCAISDQoH
EgViYXRjaAoCCAFiJAoNcG9saWN5X2xvZ2l0cxITChEIChINCgcSBWJhdGNoCgIIAWIYCgV2YWx1ZRIPCg0IARIJCgcS
BWJhdGNoQgQKABAR
""")


def probe(provider: Provider) -> None:
    """Run a tiny model on a provider as models are run, before there is any model to load.

    Raises:
        IncompatibleModelError: it does not work here, as the next; the message says what failed.
        InferenceUnavailableError: memory is short, or the GPU fails or is not there.
    """
    if provider.is_gpu:
        load_cuda()
    if provider.cache_folder is not None:
        provider.cache_folder.mkdir(parents=True, exist_ok=True)
    session = open_session(PROBE_MODEL, Shape(1, 1), replace(provider, max_rows=4))
    rows = np.array([[0], [128], [255]], np.uint8)
    policy_logits, value = session.run(rows)
    wanted = rows[:, 0] / 256
    answers: Sequence[np.ndarray] = (policy_logits[:, 0].astype(np.float32), value)
    if not all(np.allclose(answer, wanted, atol=1e-2) for answer in answers):
        raise IncompatibleModelError(
            f"it answers {value.tolist()} where {wanted.tolist()} is right"
        )


def numbers(devices: str) -> list[int]:
    """The GPUs that ``ZEROFLEET_DEVICES`` names; 0 where it names none.

    Raises:
        ConfigError: it is no list of numbers, or names one twice, or ``all`` where there is none.
    """
    if devices.strip() == "all":
        return list(range(_count()))
    parts = [part.strip() for part in devices.split(",")] if devices.strip() else ["0"]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise ConfigError(
            f"ZEROFLEET_DEVICES = '{devices}': give numbers of GPUs such as 0,1, or 'all'"
        )
    found = [int(part) for part in parts]
    if len(set(found)) < len(found):
        raise ConfigError(f"ZEROFLEET_DEVICES = '{devices}': a GPU is named twice")
    return found


def active_provider(run: RunConfig, settings: InferenceSettings) -> Provider:
    """Return the provider that the run file asks for, once a tiny model ran on it; else the CPU.

    Logs the requested provider, the provider in use, and the sizes that follow from it.

    Raises:
        ConfigError: a provider that was named does not work, or ``require_gpu`` is not met.
    """
    section = run.inference
    installed = installed_runtimes()
    name = choose(section.provider, offered_providers(), installed)
    (device,) = numbers(settings.devices)
    provider, fault = CPU, ""
    if name != "cpu":
        provider = Provider(
            name,
            device,
            section.max_batch_rows,
            settings.engine_folder if name == "tensorrt" else None,
        )
        fault = _provider_fault(provider)
    if fault and (section.provider != "auto" or section.require_gpu):
        raise ConfigError(
            f"[inference] provider '{name}' on device {device} does not work here: {fault}. To run "
            "on the CPU, set provider = 'auto' and require_gpu = false"
        )
    if fault:
        provider = CPU
    if section.require_gpu and not provider.is_gpu:
        raise ConfigError(_no_gpu_message(section.provider, provider, installed))
    log = _log.warning if fault else _log.info
    log(
        "provider",
        requested=section.provider,
        name=provider.name,
        runs_on=runs_on_text(run, provider),
        **({"gpu_not_used": fault} if fault else {}),
    )
    return provider


def _no_gpu_message(wanted: str, provider: Provider, installed: Sequence[str]) -> str:
    """Return the error for ``require_gpu = true`` with a provider that uses no GPU."""
    if wanted != "auto":
        return (
            f"[inference] require_gpu = true contradicts provider = '{wanted}': set provider = "
            "'auto', or require_gpu = false"
        )
    return (
        "[inference] require_gpu = true, but predictions would run without a GPU, on provider "
        f"'{provider.name}'. The installed {', '.join(installed)} offers "
        f"{', '.join(offered_providers())}. On a machine with an NVIDIA GPU, install "
        "zerofleet[gpu] in place of zerofleet[inference]; otherwise set require_gpu = false"
    )


def _provider_fault(provider: Provider) -> str:
    """Return why a provider does not work here; empty if it does."""
    try:
        if provider.is_gpu:
            gpu_of(provider.device)  # ONNX Runtime does not say that there is no driver
        # Otherwise each session logs a warning about a way to load providers that we do not use.
        only_errors()
        probe(provider)
    except (IncompatibleModelError, InferenceUnavailableError, OSError) as error:
        if not isinstance(error, OSError) and (missing := library_fault(provider.name)):
            return f"a library cannot be loaded ({missing})"
        text = " ".join(str(error).split())
        found = _CUDA_FAILURE.search(text)
        return found[0] if found else text
    return ""


def sessions_of(run: RunConfig, provider: Provider) -> int:
    """Return the number of batches that are computed at the same time."""
    return run.inference.sessions or (2 if provider.is_gpu else 1)


def runs_on_text(run: RunConfig, provider: Provider) -> str:
    """Return what predictions run on, and the sizes that were chosen for it, in words."""
    place, rows = provider.name, f"up to {run.inference.max_batch_rows}"
    if provider.is_gpu:
        place = f"{place} on GPU {provider.device} ({gpu_of(provider.device)})"
        rows = ", ".join(map(str, provider.buckets))
    sessions = counted(sessions_of(run, provider), "session")
    return f"{place}, {sessions}, batches of {rows} positions"


def _count() -> int:
    try:
        count = device_count()
    except OSError as error:
        raise ConfigError(
            f"ZEROFLEET_DEVICES = 'all': no NVIDIA GPU can be found ({error}); name them by number"
        ) from error
    if count == 0:
        raise ConfigError("ZEROFLEET_DEVICES = 'all': the driver knows no GPU")
    return count


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
    """Send SIGTERM to all, then SIGKILL to each that has not ended in time."""
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
