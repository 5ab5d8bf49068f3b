"""A model plays all its opponents at the same time, over real gRPC and a real database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.predictors import HashPredictor
from zerofleet import games
from zerofleet.client import AsyncModel
from zerofleet.config import RunConfig, run_from_values
from zerofleet.database import Database
from zerofleet.prediction import Prediction
from zerofleet.rpc.codec import RequestShape
from zerofleet.rpc.inference_service import ModelCounters, ModelState
from zerofleet.rpc.server import Server
from zerofleet.services.evaluator.context import EvaluatorContext, Players
from zerofleet.services.evaluator.spare_games import RatingPool
from zerofleet.waiting import Waits

GAME = "tic_tac_toe"
NEWEST = 4


class Opinions:
    """An ``InferenceBackend`` that gives no answer until all models have a request.

    Args:
        everybody: the versions that must have a request first.
    """

    provider = "cpu"

    def __init__(self, everybody: set[int]) -> None:
        self._missing = set(everybody)
        self._asked = asyncio.Event()
        spec = games.spec(GAME)
        self._shape = RequestShape(spec.observation_bytes, spec.num_actions, 64)

    def ready(self) -> bool:
        return True

    def runs(self) -> Sequence[str]:
        return ("pooled",)

    def shape(self, run: str) -> RequestShape:
        return self._shape

    def submit(
        self,
        run: str,
        version: int | None,
        observations: NDArray[np.uint8],
        deadline: float | None,
        precision: str | None = None,
    ) -> asyncio.Future[Prediction]:
        assert version is not None
        self._missing.discard(version)
        if not self._missing:
            self._asked.set()
        return asyncio.ensure_future(self._answer(version, observations))

    async def _answer(self, version: int, observations: NDArray[np.uint8]) -> Prediction:
        await self._asked.wait()
        return await HashPredictor(GAME, version).predict(observations)

    async def model_ready(self, run: str, version: int | None) -> bool:
        return True

    async def check(self, run: str, version: int | None) -> None:
        pass

    def loaded_versions(self, run: str) -> list[int]:
        return []

    def parameters(self, run: str, version: int | None) -> Mapping[str, str]:
        return {}

    def counters(self, run: str) -> list[ModelCounters]:
        return []

    async def index(self) -> list[ModelState]:
        return []


@pytest.fixture
def run(database: Database) -> RunConfig:
    """A run with four promoted models."""
    run = run_from_values(
        {
            "name": "pooled",
            "game": {"name": GAME},
            "rating": {"games": 4, "opponents": [1, 2, 3], "num_simulations": 6},
            "evaluator": {"opening_plies": 2},
        }
    )
    database.register_run(run)
    trainer = database.acquire_fence(run.name, "trainer")
    evaluator = database.acquire_fence(run.name, "evaluator")
    for version in range(1, NEWEST + 1):
        database.insert_model(run.name, version, f"{version:064x}", version, {}, "m", trainer)
        database.promote(run.name, version, None, "test", version - 1, epoch=evaluator)
    return run


@asynccontextmanager
async def pool_of(
    run: RunConfig, database: Database, go: asyncio.Event, everybody: set[int]
) -> AsyncGenerator[RatingPool]:
    backend = Opinions(everybody)
    epoch = database.evaluator_epoch(run.name)
    async with (
        Server("127.0.0.1:0", inference=backend) as server,
        AsyncModel(f"127.0.0.1:{server.port}", run.name) as model,
    ):
        context = EvaluatorContext(run, database, Waits(), "test", epoch)
        yield RatingPool(context, Players(context, model), go)


def played(database: Database) -> dict[tuple[str, str], int]:
    """Return the number of games by pairing, both colours together."""
    counts: dict[tuple[str, str], int] = {}
    for player, opponent, _, _ in database.rating_places("pooled"):
        counts[player, opponent] = counts.get((player, opponent), 0) + 1
    return counts


async def test_a_model_meets_all_its_opponents_at_the_same_time(
    run: RunConfig, database: Database
) -> None:
    """If they took turns they would wait forever: all models must be asked before one answers."""
    go = asyncio.Event()
    go.set()
    async with pool_of(run, database, go, {1, 2, 3, NEWEST}) as pool:
        assert not pool.in_play
        async with asyncio.timeout(120):
            assert await pool.play_some()
        assert not pool.in_play
    opponents = ("1", "2", "3", "random", "search")
    assert played(database) == {("4", name): 4 for name in opponents}
    figures = pool.context.figures
    assert figures.rating_player_games == figures.rating_player_most_games == 20
    assert pool.context.games_played == 20
    assert len(database.ratings("pooled")) == 6


async def test_nobody_is_asked_while_a_candidate_is_judged(
    run: RunConfig, database: Database, until: Any
) -> None:
    go = asyncio.Event()
    async with pool_of(run, database, go, {NEWEST}) as pool:
        playing = asyncio.create_task(pool.play_some())
        await until(lambda: pool.in_play)
        await asyncio.wait({playing}, timeout=0.5)
        assert played(database) == {}
        go.set()
        async with asyncio.timeout(120):
            assert await playing
    assert sum(played(database).values()) == 20
