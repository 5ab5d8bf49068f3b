"""A worker that names the best version itself: when it switches to a new one, and when not yet."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from zerofleet.database import Promotion
from zerofleet.errors import (
    InferenceUnavailableError,
    ModelNotFoundError,
    OverloadedError,
    StoreUnavailableError,
    UnauthenticatedError,
    ZerofleetError,
)
from zerofleet.prediction import Prediction
from zerofleet.services.selfplay.best_version_predictor import BestVersionPredictor

ROWS = np.zeros((1, 4), np.uint8)


@dataclass
class Server:
    """A server that has some versions, and the store that names the best one."""

    version: str = "best"
    has: set[str] = field(default_factory=set)
    away: bool = False
    error: ZerofleetError | None = None
    newest: Promotion | None = None
    store_away: bool = False

    async def ready(self, version: int) -> bool:
        if self.away:
            raise InferenceUnavailableError("nobody there")
        if self.error is not None:
            raise self.error
        return str(version) in self.has

    async def predict(self, observations: np.ndarray) -> Prediction:
        value = np.zeros(len(observations), np.float32)
        return Prediction(value[:, np.newaxis], value, int(self.version))

    def promotion(self) -> Promotion | None:
        if self.store_away:
            raise StoreUnavailableError("no store")
        return self.newest


def predictor_of(server: Server) -> BestVersionPredictor:
    return BestVersionPredictor("r", server, server, server.promotion)


async def test_it_goes_over_once_the_server_has_the_version() -> None:
    server = Server(newest=Promotion(1, 1, ""))
    predictor = predictor_of(server)
    await predictor.look()
    with pytest.raises(ModelNotFoundError, match="no promoted version here yet"):
        await predictor.predict(ROWS)
    server.has.add("1")
    await predictor.look()
    assert (await predictor.predict(ROWS)).model_version == 1
    server.newest = Promotion(2, 7, "")
    await predictor.look()
    assert (await predictor.predict(ROWS)).model_version == 1  # the server reads its folder later
    server.has.add("7")
    await predictor.look()
    assert (await predictor.predict(ROWS)).model_version == 7


async def test_what_is_away_changes_nothing() -> None:
    server = Server(newest=Promotion(1, 1, ""), has={"1", "2"})
    predictor = predictor_of(server)
    await predictor.look()
    server.newest, server.away = Promotion(2, 2, ""), True
    await predictor.look()
    server.away, server.store_away = False, True
    await predictor.look()
    assert (await predictor.predict(ROWS)).model_version == 1
    server.store_away = False
    await predictor.look()
    assert (await predictor.predict(ROWS)).model_version == 2


async def test_a_refusal_is_heard_by_who_predicts() -> None:
    """The error must reach the worker's main task; otherwise its games would be lost."""
    server = Server(newest=Promotion(1, 1, ""), has={"1", "2"}, error=UnauthenticatedError("who?"))
    predictor = predictor_of(server)
    await predictor.look()
    with pytest.raises(UnauthenticatedError, match="who"):
        await predictor.predict(ROWS)
    server.error = None
    await predictor.look()
    assert (await predictor.predict(ROWS)).model_version == 1
    for error in (UnauthenticatedError("who?"), OverloadedError("full")):
        server.newest, server.error = Promotion(2, 2, ""), error
        await predictor.look()
        # the previous version stays in use
        assert (await predictor.predict(ROWS)).model_version == 1


async def test_a_server_without_room_is_asked_again() -> None:
    server = Server(newest=Promotion(1, 1, ""), has={"1"}, error=OverloadedError("full"))
    predictor = predictor_of(server)
    await predictor.look()
    with pytest.raises(ModelNotFoundError):
        await predictor.predict(ROWS)
    server.error = None
    await predictor.look()
    assert (await predictor.predict(ROWS)).model_version == 1
