"""Stores that hang: who else has to wait."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from zerofleet.prediction import FP32, ModelFile
from zerofleet.services.inference.loaded_models import LoadedModel
from zerofleet.services.inference.served_models import ServedModels


class Hangs:
    """A source, and a loader, that answer when they are told to."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.loading = 0

    def versions(self) -> list[int]:
        self.answers.wait()
        return []

    def files(self, version: int) -> dict[str, ModelFile]:
        return {FP32: ModelFile(version, FP32, str(version))}

    def load(self, file: ModelFile) -> LoadedModel:
        self.loading += 1
        self.answers.wait()
        return LoadedModel(file, ())


async def test_clients_who_ask_a_store_that_hangs_take_no_thread_from_others() -> None:
    """The best pointer and heartbeats are on the loop's own threads."""
    source: Any = Hangs()
    models = ServedModels("run", source, lambda *_: source)
    asking = [asyncio.create_task(models.index()) for _ in range(64)]
    try:
        await asyncio.sleep(0)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "other work"), 120) == "other work"
    finally:
        source.answers.set()
    assert await asyncio.gather(*asking) == [[]] * 64


async def test_models_that_load_slowly_take_no_thread_from_others() -> None:
    source: Any = Hangs()
    models = ServedModels("run", source, source.load, keep=64)
    asking = [asyncio.create_task(models.get(version)) for version in range(1, 65)]
    try:
        while source.loading < 2:  # noqa: ASYNC110 - two threads set it
            await asyncio.sleep(0)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "other work"), 120) == "other work"
        assert source.loading == 2
    finally:
        source.answers.set()
    assert [model.version for model in await asyncio.gather(*asking)] == list(range(1, 65))


async def test_what_waits_for_a_thread_is_given_up_at_the_end() -> None:
    source: Any = Hangs()
    models = ServedModels("run", source, source.load)
    asking = [asyncio.create_task(models.get(version)) for version in range(1, 9)]
    try:
        while source.loading < 2:  # noqa: ASYNC110 - two threads set it
            await asyncio.sleep(0)
        models.close()
    finally:
        source.answers.set()
    done = await asyncio.gather(*asking, return_exceptions=True)
    assert [isinstance(each, LoadedModel) for each in done] == [True] * 2 + [False] * 6
    assert source.loading == 2
