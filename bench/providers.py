"""Execution providers of ONNX Runtime for the measured network."""

from __future__ import annotations

from typing import cast

from zerofleet.models.runtime import ONNX_NAMES, Provider, ProviderName

PROVIDERS = tuple(ONNX_NAMES)
"""Names of all providers."""

MAX_BATCH_ROWS = 1024
"""Most rows of a batch."""


def provider_of(name: str) -> Provider:
    """Return the provider with the inference service's settings, on the first device.

    Args:
        name: one of ``PROVIDERS``.
    """
    return Provider(cast("ProviderName", name), max_rows=MAX_BATCH_ROWS)
