"""Models that do not load: the error, and how long the failure is remembered."""

from __future__ import annotations

import contextlib
import gc
import weakref

import pytest

from zerofleet.errors import (
    IncompatibleModelError,
    InferenceUnavailableError,
    StoreUnavailableError,
    ZerofleetError,
)
from zerofleet.prediction import FP32, ModelFile
from zerofleet.services.inference.loaded_models import LoadedModel, LoadedModels


@pytest.mark.parametrize(
    "kind", [IncompatibleModelError, InferenceUnavailableError, StoreUnavailableError]
)
async def test_a_failure_keeps_its_kind(kind: type[ZerofleetError]) -> None:
    """Clients must tell a bucket that is down, which is worth a retry, from a broken model."""
    loads: list[int] = []

    def load(file: ModelFile) -> LoadedModel:
        loads.append(file.version)
        raise kind("why it failed")

    models = LoadedModels(load, keep=3)
    for _ in range(3):
        with pytest.raises(kind, match="why it failed"):
            await models.load(ModelFile(1, FP32, "0" * 64))
    assert loads == [1]  # the next attempt comes later
    assert models.why_not("0" * 64) == "why it failed"
    assert models.failed_loads == 1


async def test_short_memory_drops_what_was_used_longest_ago() -> None:
    """Models that are no longer needed must not block the next best model forever."""
    short = [False]

    def load(file: ModelFile) -> LoadedModel:
        if short[0]:
            raise InferenceUnavailableError("no memory")
        return LoadedModel(file, ())

    models = LoadedModels(load, keep=5)
    for version in (1, 2, 3, 4):
        await models.load(ModelFile(version, FP32, str(version)))
    models.pinned = frozenset({(1, FP32)})
    assert models.get(2, FP32) is not None  # this makes it the most recently used
    short[0] = True
    for version in (5, 6):  # each has another file, since the same file is not tried again at once
        with pytest.raises(InferenceUnavailableError):
            await models.load(ModelFile(version, FP32, str(version)))
    assert [model.version for model in models.models()] == [1, 2]
    with pytest.raises(InferenceUnavailableError):
        await models.load(ModelFile(7, FP32, "7"))
    with pytest.raises(InferenceUnavailableError):
        await models.load(ModelFile(8, FP32, "8"))
    assert [model.version for model in models.models()] == [1]


async def test_a_bad_file_drops_no_other() -> None:
    def load(file: ModelFile) -> LoadedModel:
        if file.version == 2:
            raise IncompatibleModelError("damaged")
        return LoadedModel(file, ())

    models = LoadedModels(load, keep=5)
    await models.load(ModelFile(1, FP32, "1"))
    with pytest.raises(IncompatibleModelError):
        await models.load(ModelFile(2, FP32, "2"))
    assert [model.version for model in models.models()] == [1]


async def test_a_failed_load_keeps_nothing_in_memory() -> None:
    """A session that was opened before a later failure may hold memory that a retry needs."""

    class Opened:
        pass

    opened: list[weakref.ref[Opened]] = []

    def load(file: ModelFile) -> LoadedModel:
        session = Opened()
        opened.append(weakref.ref(session))
        raise InferenceUnavailableError(f"no memory next to {session}")

    models = LoadedModels(load, keep=3)
    gc.collect()
    gc.disable()
    try:
        for version in range(1, 6):
            with contextlib.suppress(InferenceUnavailableError):
                await models.load(ModelFile(version, FP32, str(version)))
        alive = [session for session in opened if session() is not None]
    finally:
        gc.enable()
    assert len(opened) == 5
    assert len(alive) <= 1  # a waiting thread may keep a reference to its last task
