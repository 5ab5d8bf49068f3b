"""Serve one model file with the inference service's own parts, but without stores.

``python -m bench.serve_file GAME FILE SESSIONS`` prints its port, then serves until its standard
input closes.
"""

import asyncio
import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from zerofleet_core import State

from services.inference.backend import Backend
from services.inference.batcher import Batcher, BatchLimits
from services.inference.model import ModelLoader
from services.inference.repository import Promoted, Repository
from zerofleet import games, rpc, telemetry
from zerofleet.models.session import ModelSession

RUN = "bench"
MAX_BATCH_ROWS = 1024


class OneFile:
    """A ``ModelSource`` with a single version."""

    def __init__(self, sha256: str) -> None:
        self._sha256 = sha256

    def best(self) -> Promoted:
        """The only version."""
        return Promoted(1, 1, self._sha256)

    def promotions(self) -> Sequence[Promoted]:
        """The only promotion."""
        return [self.best()]

    def sha256(self, version: int) -> str:
        """Of any version: there is one."""
        del version
        return self._sha256

    def versions(self) -> Sequence[int]:
        """The only version."""
        return [1]


async def serve(game: str, model_bytes: bytes, sessions: int) -> None:
    """Serve until standard input closes."""
    spec = games.spec(game)
    loader = ModelLoader(
        lambda _: model_bytes,
        lambda content: ModelSession(content, spec),
        sessions,
        np.stack([State(game).observation()]),
    )
    source = OneFile(hashlib.sha256(model_bytes).hexdigest())
    repository = Repository(RUN, source, loader)
    limits = BatchLimits(MAX_BATCH_ROWS, 16 * MAX_BATCH_ROWS, threads=sessions)
    shape = rpc.ModelShape(spec.observation_bytes, spec.num_actions, MAX_BATCH_ROWS)
    async with Batcher(limits, repository.mark_bad) as batcher:
        await repository.refresh()
        backend = Backend(repository, batcher, shape)
        async with rpc.serve("127.0.0.1:0", inference=backend) as server:
            await server.set_serving(True)
            print(server.port, flush=True)
            await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    telemetry.configure("inference", level="warning")
    asyncio.run(serve(sys.argv[1], Path(sys.argv[2]).read_bytes(), int(sys.argv[3])))
