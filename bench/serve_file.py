"""Serve one model file with the parts of the inference service, but without stores.

``python -m bench.serve_file GAME FILE SESSIONS PROVIDER`` prints its port. For each line on
standard input it prints the batcher's totals. Both are lines of JSON. It ends when standard input
closes. If FILE is ``-``, it serves a network that costs nothing.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from bench.play import PLAY_VERSION
from bench.predictors import NoNetwork
from bench.providers import MAX_BATCH_ROWS, provider_of
from zerofleet import games
from zerofleet.database import Promotion
from zerofleet.games import State
from zerofleet.models.runtime import Provider
from zerofleet.models.session import open_session
from zerofleet.prediction import FP32, ModelFile
from zerofleet.rpc.codec import RequestShape
from zerofleet.rpc.server import Server
from zerofleet.search_configs import PLAIN_SEARCH
from zerofleet.service import configure_logs
from zerofleet.services.inference.backend import Backend
from zerofleet.services.inference.batcher import Batcher, BatchLimits
from zerofleet.services.inference.loaded_models import LoadedModel, ModelLoader
from zerofleet.services.inference.model_player import ModelPlayer
from zerofleet.services.inference.served_models import ServedModels

RUN = "bench"
"""Name of the served run."""
NO_FILE = "-"
"""FILE of the network that costs nothing."""


class OneFile:
    """A ``ModelSource`` with a single version.

    Args:
        sha256: hash of the model file.
    """

    def __init__(self, sha256: str) -> None:
        self._sha256 = sha256

    def best(self) -> Promotion:
        """Return the only promotion."""
        return Promotion(1, PLAY_VERSION, self._sha256)

    def promotions(self) -> Sequence[Promotion]:
        """Return the only promotion."""
        return [self.best()]

    def files(self, version: int) -> Mapping[str, ModelFile]:
        """Return the only file as fp32; it is served unchanged, whatever its precision."""
        return {FP32: ModelFile(version, FP32, self._sha256)}

    def refresh(self) -> None:
        """Do nothing, because nothing changes."""

    def versions(self) -> Sequence[int]:
        """Return the only version."""
        return [PLAY_VERSION]


def loader_of(
    game: str, model_bytes: bytes, sessions: int, provider: Provider
) -> Callable[[ModelFile], LoadedModel]:
    """Return the service's own loader, for a model in memory.

    Args:
        game: name with its rules.
        model_bytes: contents of the model file.
        sessions: number of model sessions.
        provider: execution provider.
    """
    spec = games.spec(game)
    return ModelLoader(
        lambda _: model_bytes,
        lambda content: open_session(content, spec, provider),
        sessions,
        np.stack([State(game).observation()]),
    )


def loader_without_network(game: str, sessions: int) -> Callable[[ModelFile], LoadedModel]:
    """Return a loader of a network that costs nothing."""
    networks = [NoNetwork(games.spec(game).num_actions, MAX_BATCH_ROWS) for _ in range(sessions)]
    return lambda file: LoadedModel(file, networks)


async def serve(game: str, model_bytes: bytes, sessions: int, provider: Provider) -> None:
    """Serve a model until standard input closes.

    Args:
        game: name with its rules.
        model_bytes: contents of the model file; empty: a network that costs nothing.
        sessions: number of model sessions.
        provider: execution provider.
    """
    spec = games.spec(game)
    if model_bytes:
        loader = loader_of(game, model_bytes, sessions, provider)
    else:
        loader = loader_without_network(game, sessions)
    models = ServedModels(RUN, OneFile(hashlib.sha256(model_bytes).hexdigest()), loader)
    limits = BatchLimits(MAX_BATCH_ROWS, 64 * MAX_BATCH_ROWS, threads=sessions)
    shape = RequestShape(spec.observation_bytes, spec.num_actions, MAX_BATCH_ROWS)
    async with Batcher(limits, models.mark_bad) as batcher:
        await models.refresh()
        backend = Backend(models, batcher, shape)
        player = ModelPlayer(game, PLAIN_SEARCH, models, batcher)
        async with Server("127.0.0.1:0", inference=backend, player=player) as server:
            await server.set_serving(True)
            print(json.dumps({"port": server.port}), flush=True)
            while await asyncio.to_thread(sys.stdin.readline):
                totals = dataclasses.asdict(batcher.statistics.totals)
                print(json.dumps(totals), flush=True)


if __name__ == "__main__":
    configure_logs("inference", level="warning")
    game, file, sessions, name = sys.argv[1:]
    content = b"" if file == NO_FILE else Path(file).read_bytes()
    asyncio.run(serve(game, content, int(sessions), provider_of(name)))
