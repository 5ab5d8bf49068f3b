"""What this process computes on: the run file's wish, held against what is there."""

from __future__ import annotations

import structlog

from services.inference.settings import InferenceSettings
from zerofleet.config import RunConfig
from zerofleet.errors import ConfigError, IncompatibleModelError, InferenceUnavailableError
from zerofleet.models.driver import device_count
from zerofleet.models.probe import probe
from zerofleet.models.provider import CPU, Provider, choose
from zerofleet.models.runtime import installed_runtimes, offered_providers, only_errors

_log = structlog.get_logger()


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
    """What works here of what the run file asks for, tried out.

    Raises:
        ConfigError: a provider that was named does not work, or ``require_gpu`` is not met.
    """
    section = run.inference
    installed = installed_runtimes()
    name = choose(section.provider, offered_providers(), installed)
    (device,) = numbers(settings.devices)
    provider = CPU
    if name != "cpu":
        provider = Provider(
            name,
            device,
            section.max_batch_rows,
            section.cuda_graphs,
            settings.engine_folder if name == "tensorrt" else None,
        )
        provider = _tried(provider, named=section.provider != "auto", required=section.require_gpu)
    if section.require_gpu and not provider.is_gpu:
        raise ConfigError(
            f"[inference] require_gpu = true, but the active provider is '{provider.name}' "
            f"({', '.join(installed)} offers {', '.join(offered_providers())}): install "
            "zerofleet[gpu] in place of zerofleet[inference] on a machine with an NVIDIA GPU, or "
            "set require_gpu = false"
        )
    _log.info("provider", name=provider.name, device=device if provider.is_gpu else None)
    return provider


def _tried(provider: Provider, *, named: bool, required: bool) -> Provider:
    try:
        probe(provider)
    except (IncompatibleModelError, InferenceUnavailableError, OSError) as error:
        reason = " ".join(str(error).split())
        if named or required:
            raise ConfigError(
                f"[inference] provider '{provider.name}' on device {provider.device} does not work "
                f"here: {reason}"
            ) from error
        _log.warning("gpu_not_used", reason=reason)
        return CPU
    only_errors()  # it warns at each session of a way to load providers that nobody went
    return provider


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
