"""Files that do not load: what is raised, and for how long it is remembered."""

from __future__ import annotations

import pytest

from services.inference.loaded_models import FP32, LoadedModel, LoadedModels
from zerofleet.errors import (
    IncompatibleModelError,
    InferenceUnavailableError,
    StoreUnavailableError,
    ZerofleetError,
)


@pytest.mark.parametrize(
    "kind", [IncompatibleModelError, InferenceUnavailableError, StoreUnavailableError]
)
async def test_a_failure_keeps_its_kind(kind: type[ZerofleetError]) -> None:
    """A bucket that is away is worth another try, a broken model is not: clients must see which."""
    loads: list[int] = []

    def load(version: int, sha256: str) -> LoadedModel:
        loads.append(version)
        raise kind("why it failed")

    models = LoadedModels(load, keep=3)
    for _ in range(3):
        with pytest.raises(kind, match="why it failed"):
            await models.load(1, FP32, "0" * 64)
    assert loads == [1]  # the next try comes later
    assert models.why_not("0" * 64) == "why it failed"
    assert models.failed_loads == 1
