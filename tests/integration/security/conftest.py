"""A server of both services with certificates and tokens, and the secrets of one fleet."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from zerofleet.errors import ModelNotFoundError
from zerofleet.prediction import Prediction
from zerofleet.rpc.access import Limits
from zerofleet.rpc.codec import RequestShape
from zerofleet.rpc.inference_service import ModelCounters, ModelState
from zerofleet.rpc.player_service import (
    PlayedAction,
    PlayerBackend,
    PlayerDescription,
    PositionPrediction,
    SearchTable,
)
from zerofleet.rpc.server import Server
from zerofleet.rpc.tls import ClientCredentials, ServerCredentials
from zerofleet.secrets.fleet_secrets import FleetSecrets

RUN = "secured"
SHAPE = RequestShape(observation_bytes=4, num_actions=3, max_batch_rows=64)


class Zeros:
    """A backend that answers zeros, once ``go`` is set; it counts who waits."""

    provider = "cpu"

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.go.set()
        self.waiting = 0

    def ready(self) -> bool:
        return True

    def runs(self) -> Sequence[str]:
        return [RUN]

    def shape(self, run: str) -> RequestShape:
        if run != RUN:
            raise ModelNotFoundError(f"no model '{run}'")
        return SHAPE

    def submit(
        self,
        run: str,
        version: int | None,
        observations: np.ndarray,
        deadline: float | None,
        precision: str | None = None,
    ) -> asyncio.Future[Prediction]:
        return asyncio.ensure_future(self._answer(len(observations)))

    async def _answer(self, rows: int) -> Prediction:
        self.waiting += 1
        try:
            await self.go.wait()
        finally:
            self.waiting -= 1
        zeros = np.zeros((rows, SHAPE.num_actions), np.float16)
        return Prediction(zeros, np.zeros(rows, np.float32), 1)

    async def model_ready(self, run: str, version: int | None) -> bool:
        return True

    async def check(self, run: str, version: int | None) -> None:
        pass

    def loaded_versions(self, run: str) -> list[int]:
        return [1]

    def parameters(self, run: str, version: int | None) -> Mapping[str, str]:
        return {}

    def counters(self, run: str) -> list[ModelCounters]:
        return []

    async def index(self) -> list[ModelState]:
        return []


class ShyPlayer:
    """A player who can only say what it plays."""

    async def describe(self) -> PlayerDescription:
        return PlayerDescription("tic_tac_toe", 9, (2, 3, 3), RUN, 1, (1,), 10, 100, 100)

    async def predict(self, *args: object, **options: object) -> PositionPrediction:
        raise ModelNotFoundError("this player does not predict")

    async def search(self, *args: object, **options: object) -> SearchTable:
        raise ModelNotFoundError("this player does not search")

    async def analyze(self, *args: object, **options: object) -> AsyncIterator[SearchTable]:
        raise ModelNotFoundError("this player does not analyze")
        yield

    async def play(self, *args: object, **options: object) -> PlayedAction:
        raise ModelNotFoundError("this player does not play")


class Served:
    """Where a server listens, and what is behind it."""

    def __init__(self, server: Server, backend: Zeros) -> None:
        self.server = server
        self.backend = backend
        self.address = f"localhost:{server.port}"


Serve = Callable[..., contextlib.AbstractAsyncContextManager[Served]]


@pytest.fixture
def serve() -> Serve:
    """``async with serve(credentials, limits) as served``."""

    @contextlib.asynccontextmanager
    async def serving(
        credentials: ServerCredentials | None = None,
        limits: Limits | None = None,
        address: str = "127.0.0.1:0",
        player: PlayerBackend | None = None,
    ) -> AsyncIterator[Served]:
        backend = Zeros()
        async with Server(
            address,
            inference=backend,
            player=player or ShyPlayer(),
            reflection=True,
            credentials=credentials or ServerCredentials(),
            limits=limits or Limits(),
        ) as server:
            await server.set_serving(True)
            yield Served(server, backend)

    return serving


@pytest.fixture(scope="session")
def fleet_secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All secrets of one fleet, to read."""
    folder = tmp_path_factory.mktemp("secrets")
    FleetSecrets(folder).make()
    return folder


@pytest.fixture
def tls(fleet_secrets: Path) -> Callable[[str], Path]:
    """The TLS folder of a service."""
    return lambda name: fleet_secrets / "tls" / name


@pytest.fixture
def secured(fleet_secrets: Path) -> ServerCredentials:
    """mTLS and tokens, as a server has them."""
    return ServerCredentials(
        tls_folder=fleet_secrets / "tls" / "inference",
        token_roles_file=fleet_secrets / "tokens" / "roles.toml",
    )


@pytest.fixture
def shown(fleet_secrets: Path) -> Callable[..., ClientCredentials]:
    """Make a client's credentials: ``shown("worker")`` has a token, or a certificate by default."""

    def make(role: str | None, certificate: str | None = "selfplay") -> ClientCredentials:
        return ClientCredentials(
            tls_folder=None if certificate is None else fleet_secrets / "tls" / certificate,
            token_file=None if role is None else fleet_secrets / "tokens" / role,
        )

    return make
