"""Execution provider of the measured network."""

from __future__ import annotations

from typing import cast

from zerofleet.models.runtime import ONNX_NAMES, Provider, ProviderName

PROVIDERS = tuple(ONNX_NAMES)
MAX_BATCH_ROWS = 1024


def provider_of(name: str) -> Provider:
    """The provider as the service would use it, on the first device."""
    return Provider(cast("ProviderName", name), max_rows=MAX_BATCH_ROWS)
