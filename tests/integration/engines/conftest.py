"""A player of any game over gRPC: a network of plain numpy behind the real batcher and wire."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import numpy as np
import pytest
from zerofleet_core import game_spec

from zerofleet.config import SearchSection
from zerofleet.database import Promotion
from zerofleet.prediction import FP32, ModelFile
from zerofleet.rpc.codec import RequestShape
from zerofleet.rpc.server import Server
from zerofleet.services.inference.backend import Backend
from zerofleet.services.inference.batcher import Batcher, BatchLimits
from zerofleet.services.inference.loaded_models import LoadedModel
from zerofleet.services.inference.model_player import ModelPlayer
from zerofleet.services.inference.served_models import ServedModels

RUN = "engines"


class LinearSession:
    """Logits and value are functions of the planes' bits.

    Args:
        game: decides the sizes.
        gate: each call waits until it may pass.
    """

    def __init__(self, game: str, gate: threading.Semaphore | None = None) -> None:
        spec = game_spec(game)
        generator = np.random.default_rng(1)
        self._logits = generator.normal(size=(8 * spec.observation_bytes, spec.num_actions)) / 8
        self._value = generator.normal(size=8 * spec.observation_bytes) / 8
        self._gate = gate

    def run(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self._gate is not None:
            self._gate.acquire()
        bits = np.unpackbits(observations, axis=1).astype(np.float64)
        return (
            (bits @ self._logits).astype(np.float16),
            np.tanh(bits @ self._value).astype(np.float32),
        )


class OneVersion:
    """A ``ModelSource`` of version 1."""

    def best(self) -> Promotion | None:
        return self.promotions()[0]

    def promotions(self) -> list[Promotion]:
        return [Promotion(1, 1, self.sha256(1))]

    def sha256(self, version: int) -> str:
        return hashlib.sha256(bytes([version])).hexdigest()

    def files(self, version: int) -> dict[str, ModelFile]:
        return {FP32: ModelFile(version, FP32, self.sha256(version))}

    def versions(self) -> list[int]:
        return [1]


@dataclass
class PlayerServer:
    address: str
    player: ModelPlayer


Open = Callable[..., contextlib.AbstractAsyncContextManager[PlayerServer]]


@pytest.fixture
def player_server() -> Open:
    """``async with player_server(game, search, gate) as server``."""

    @contextlib.asynccontextmanager
    async def opened(
        game: str, search: SearchSection | None = None, gate: threading.Semaphore | None = None
    ) -> AsyncIterator[PlayerServer]:
        def load(file: ModelFile) -> LoadedModel:
            return LoadedModel(file, (LinearSession(game, gate),))

        models = ServedModels(RUN, OneVersion(), load)
        spec = game_spec(game)
        async with Batcher(BatchLimits(64, 1024), models.mark_bad) as batcher:
            await models.refresh()
            shape = RequestShape(spec.observation_bytes, spec.num_actions, 64)
            section = search or SearchSection(num_simulations=12, prove_results=False)
            player = ModelPlayer(game, section, models, batcher)
            backend = Backend(models, batcher, shape)
            async with Server("127.0.0.1:0", inference=backend, player=player) as server:
                yield PlayerServer(f"127.0.0.1:{server.port}", player)

    return opened
