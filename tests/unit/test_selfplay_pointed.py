"""A worker that names the best version itself: when it goes over to a new one, and when not yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest

from services.selfplay.pointed import PointedPredictor, PromotedVersion
from zerofleet.best import Best, BestPointer
from zerofleet.database import Database
from zerofleet.errors import (
    InferenceUnavailableError,
    ModelNotFoundError,
    OverloadedError,
    StoreUnavailableError,
    UnauthenticatedError,
    ZerofleetError,
)
from zerofleet.prediction import Prediction

ROWS = np.zeros((1, 4), np.uint8)


@dataclass
class Server:
    """A server that has some versions, and the stores that name the best one."""

    version: str = "best"
    has: set[str] = field(default_factory=set)
    away: bool = False
    error: ZerofleetError | None = None
    redis: Best | None = None
    redis_away: bool = False
    postgres: Best | None = None
    postgres_away: bool = False

    async def ready(self, version: int) -> bool:
        if self.away:
            raise InferenceUnavailableError("nobody there")
        if self.error is not None:
            raise self.error
        return str(version) in self.has

    async def predict(self, observations: np.ndarray) -> Prediction:
        value = np.zeros(len(observations), np.float32)
        return Prediction(value[:, np.newaxis], value, int(self.version))

    def get(self) -> Best | None:
        if self.redis_away:
            raise StoreUnavailableError("no Redis")
        return self.redis

    def promotion_head(self, run: str) -> Best | None:
        if self.postgres_away:
            raise StoreUnavailableError("no Postgres")
        return self.postgres


def pointed(server: Server) -> PointedPredictor:
    stores: Any = server
    promoted = PromotedVersion("r", cast("BestPointer", stores), cast("Database", stores))
    return PointedPredictor("r", server, server, promoted)


async def test_it_goes_over_once_the_server_has_the_version() -> None:
    server = Server(redis=Best(1, 1, ""))
    predictor = pointed(server)
    await predictor.look()
    with pytest.raises(ModelNotFoundError, match="no promoted version here yet"):
        await predictor.predict(ROWS)
    server.has.add("1")
    await predictor.look()
    assert (await predictor.predict(ROWS)).model_version == 1
    server.redis = Best(2, 7, "")
    await predictor.look()
    assert (await predictor.predict(ROWS)).model_version == 1  # the server reads its folder later
    server.has.add("7")
    await predictor.look()
    assert (await predictor.predict(ROWS)).model_version == 7


async def test_postgres_says_it_where_redis_is_away_or_empty() -> None:
    server = Server(postgres=Best(1, 1, ""), has={"1", "2", "3"})
    predictor = pointed(server)
    await predictor.look()
    assert server.version == "1"
    server.redis_away, server.postgres = True, Best(2, 2, "")
    await predictor.look()
    assert server.version == "2"
    server.redis_away, server.redis = False, Best(3, 3, "")
    await predictor.look()
    assert server.version == "3"


async def test_what_is_away_changes_nothing() -> None:
    server = Server(redis=Best(1, 1, ""), has={"1", "2"})
    predictor = pointed(server)
    await predictor.look()
    server.redis, server.away = Best(2, 2, ""), True
    await predictor.look()
    server.away, server.redis_away, server.postgres_away = False, True, True
    await predictor.look()
    assert (await predictor.predict(ROWS)).model_version == 1
    server.redis_away = False
    await predictor.look()
    assert (await predictor.predict(ROWS)).model_version == 2


async def test_a_refusal_is_heard_by_who_predicts() -> None:
    """It must not end the worker beside its back: its games would not be kept."""
    server = Server(redis=Best(1, 1, ""), has={"1", "2"}, error=UnauthenticatedError("who?"))
    predictor = pointed(server)
    await predictor.look()
    with pytest.raises(UnauthenticatedError, match="who"):
        await predictor.predict(ROWS)
    server.error = None
    await predictor.look()
    assert (await predictor.predict(ROWS)).model_version == 1
    for error in (UnauthenticatedError("who?"), OverloadedError("full")):
        server.redis, server.error = Best(2, 2, ""), error
        await predictor.look()
        assert (await predictor.predict(ROWS)).model_version == 1  # the one before goes on


async def test_a_server_without_room_is_asked_again() -> None:
    server = Server(redis=Best(1, 1, ""), has={"1"}, error=OverloadedError("full"))
    predictor = pointed(server)
    await predictor.look()
    with pytest.raises(ModelNotFoundError):
        await predictor.predict(ROWS)
    server.error = None
    await predictor.look()
    assert (await predictor.predict(ROWS)).model_version == 1
