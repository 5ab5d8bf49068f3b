"""The service's own parts over a GPU: an answer comes from exactly the model it names."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from zerofleet import games
from zerofleet.client import AsyncModel
from zerofleet.database import Promotion
from zerofleet.models.quantize import to_fp16
from zerofleet.models.runtime import Provider
from zerofleet.models.session import ModelSession, open_session
from zerofleet.prediction import ModelFile, Prediction
from zerofleet.rpc.codec import RequestShape
from zerofleet.rpc.server import Server
from zerofleet.services.inference.backend import Backend
from zerofleet.services.inference.batcher import Batcher, BatchLimits
from zerofleet.services.inference.loaded_models import LoadedModel, ModelLoader, Precisions
from zerofleet.services.inference.served_models import ServedModels

pytestmark = pytest.mark.gpu

RUN = "gpu"
SPEC = games.spec("connect_four")
MOST = 128
VERSIONS = (1, 2, 3, 4)


class Stored:
    """Versions with an fp16 variant each, promoted one after the other."""

    def __init__(self, make_model: Any) -> None:
        self.contents: dict[str, bytes] = {}
        self.promoted = 1
        self._names = {
            (version, precision): self._put(content)
            for version in VERSIONS
            for precision, content in (
                ("fp32", make_model(version)),
                ("fp16", to_fp16(make_model(version))),
            )
        }

    def _put(self, content: bytes) -> str:
        name = hashlib.sha256(content).hexdigest()
        self.contents[name] = content
        return name

    def best(self) -> Promotion:
        return self.promotions()[0]

    def promotions(self) -> list[Promotion]:
        return [
            Promotion(seq, seq, self._names[seq, "fp32"]) for seq in range(self.promoted, 0, -1)
        ]

    def sha256(self, version: int) -> str:
        return self._names[version, "fp32"]

    def files(self, version: int) -> dict[str, ModelFile]:
        return {
            name: ModelFile(version, name, self._names[version, name]) for name in ("fp32", "fp16")
        }

    def refresh(self) -> None:
        """Nothing is cached."""

    def versions(self) -> list[int]:
        return list(VERSIONS)


def take_half(models: Sequence[LoadedModel]) -> LoadedModel:
    return next(model for model in models if model.precision == "fp16")


@pytest.mark.parametrize("sessions", [1, 2])
async def test_no_answer_names_another_model_under_swaps(
    make_model: Any, rows: Any, sessions: int
) -> None:
    provider = Provider("cuda", max_rows=MOST)
    stored = Stored(make_model)
    loader = ModelLoader(
        stored.contents.__getitem__,
        lambda content: open_session(content, SPEC, provider),
        sessions,
        rows(1),
    )
    sizes = (1, 5, 30, 128)
    wanted = {
        (version, size): ModelSession(make_model(version), SPEC).run(rows(size))[1]
        for version in VERSIONS
        for size in sizes
    }
    for size in sizes:  # so different that no version can be taken for another
        values = [wanted[version, size][0] for version in VERSIONS]
        assert min(abs(a - b) for i, a in enumerate(values) for b in values[:i]) > 0.02
    models = ServedModels(RUN, stored, loader, 6, Precisions("auto", ("fp16",), take_half))
    heard: Counter[tuple[int, str]] = Counter()
    async with Batcher(BatchLimits(MOST, 4096, sessions), models.mark_bad) as batcher:
        await models.refresh()
        shape = RequestShape(SPEC.observation_bytes, SPEC.num_actions, MOST)
        backend = Backend(models, batcher, shape, provider.name)
        async with (
            Server("127.0.0.1:0", inference=backend) as server,
            AsyncModel(f"127.0.0.1:{server.port}", RUN) as client,
        ):
            stop = asyncio.Event()

            def check(size: int, prediction: Prediction) -> None:
                right = wanted[prediction.model_version, size]
                np.testing.assert_allclose(prediction.value, right, atol=1e-2)
                heard[prediction.model_version, prediction.precision] += 1

            async def ask(size: int) -> None:
                async with client.stream() as stream:
                    while not stop.is_set():
                        check(size, await stream.predict(rows(size)))

            askers = [asyncio.create_task(ask(size)) for size in sizes]
            for version in VERSIONS:
                stored.promoted = version
                await models.refresh()
                await _until(lambda version=version: heard[version, "fp32"] > 20, askers)
                await models.refresh_variants()
                await _until(lambda version=version: heard[version, "fp16"] > 20, askers)
            stop.set()
            await asyncio.gather(*askers)
    assert set(heard) == {(version, name) for version in VERSIONS for name in ("fp32", "fp16")}


async def _until(condition: Any, askers: list[asyncio.Task[None]]) -> None:
    async with asyncio.timeout(120):
        while not condition():
            for asker in askers:
                if asker.done():
                    await asker
            await asyncio.sleep(0.01)
