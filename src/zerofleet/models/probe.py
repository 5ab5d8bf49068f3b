"""Find out whether a provider works here, before any model is there to load."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from zerofleet.errors import IncompatibleModelError
from zerofleet.models.device_session import open_session
from zerofleet.models.provider import Provider
from zerofleet.models.runtime import load_cuda
from zerofleet.models.shape import Shape

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
    """Run a tiny model on it, by the way that models take.

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
