"""What this process computes on: the provider that the run file asks for, if it works here."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import structlog

from zerofleet.config import RunConfig
from zerofleet.errors import ConfigError, IncompatibleModelError, InferenceUnavailableError
from zerofleet.models.driver import device_count
from zerofleet.models.graph import Shape
from zerofleet.models.runtime import (
    CPU,
    Provider,
    choose,
    installed_runtimes,
    load_cuda,
    offered_providers,
    only_errors,
)
from zerofleet.models.session import open_session
from zerofleet.services.inference.settings import InferenceSettings

_log = structlog.get_logger()


# A model of one byte and one action: a convolution by 1/256, whose answer is logit and value.
# tests/unit/test_models_provider.py writes it out with ONNX's own helper.
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
    only_errors()  # it warns at each session of a way to load providers that is not used
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
