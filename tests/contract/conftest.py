"""A network of plain numpy behind the real batcher, served models and wire."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import numpy as np
import pytest

from zerofleet import games
from zerofleet.config import SearchSection
from zerofleet.database import Promotion
from zerofleet.errors import ModelNotFoundError
from zerofleet.prediction import FP32, ModelFile
from zerofleet.rpc.codec import RequestShape
from zerofleet.rpc.server import Server
from zerofleet.services.inference.backend import Backend
from zerofleet.services.inference.batcher import Batcher, BatchLimits
from zerofleet.services.inference.loaded_models import LoadedModel
from zerofleet.services.inference.model_player import ModelPlayer
from zerofleet.services.inference.served_models import ServedModels

RUN = "contract"
GAME = "tic_tac_toe"


class LinearSession:
    """Logits and value are functions of the planes' bits, another one for each version."""

    def __init__(self, version: int) -> None:
        spec = games.spec(GAME)
        generator = np.random.default_rng(version)
        self._logits = generator.normal(size=(8 * spec.observation_bytes, spec.num_actions))
        self._value = generator.normal(size=8 * spec.observation_bytes)

    def run(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        bits = np.unpackbits(observations, axis=1).astype(np.float64)
        return (
            (bits @ self._logits).astype(np.float16),
            np.tanh(bits @ self._value).astype(np.float32),
        )


class TwoVersions:
    """A ``ModelSource`` of versions 1 and 2, the second promoted."""

    def best(self) -> Promotion | None:
        return self.promotions()[0]

    def promotions(self) -> list[Promotion]:
        return [Promotion(seq, seq, self.sha256(seq)) for seq in (2, 1)]

    def sha256(self, version: int) -> str:
        if version not in (1, 2):
            raise ModelNotFoundError(f"model '{RUN}' has no version {version}")
        return hashlib.sha256(bytes([version])).hexdigest()

    def files(self, version: int) -> dict[str, ModelFile]:
        return {FP32: ModelFile(version, FP32, self.sha256(version))}

    def versions(self) -> list[int]:
        return [1, 2]


@dataclass
class InProcess:
    """The parts behind the wire, for those who need no wire."""

    models: ServedModels
    batcher: Batcher
    shape: RequestShape
    player: ModelPlayer


Open = Callable[[], contextlib.AbstractAsyncContextManager[InProcess]]


@pytest.fixture
def in_process() -> Open:
    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[InProcess]:
        def load(file: ModelFile) -> LoadedModel:
            return LoadedModel(file, (LinearSession(file.version),))

        models = ServedModels(RUN, TwoVersions(), load)
        async with Batcher(BatchLimits(64, 1024), models.mark_bad) as batcher:
            await models.refresh()
            spec = games.spec(GAME)
            shape = RequestShape(spec.observation_bytes, spec.num_actions, 64)
            player = ModelPlayer(
                GAME, SearchSection(num_simulations=40, prove_results=False), models, batcher
            )
            yield InProcess(models, batcher, shape, player)

    return opened


@pytest.fixture
def over_wire(in_process: Open) -> Callable[[], contextlib.AbstractAsyncContextManager[str]]:
    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[str]:
        async with in_process() as parts:
            backend = Backend(parts.models, parts.batcher, parts.shape)
            async with Server("127.0.0.1:0", inference=backend, player=parts.player) as server:
                yield f"127.0.0.1:{server.port}"

    return opened
