"""The promises of every predictor, tested on fakes, in process and over gRPC."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from tests.support.predictors import HashPredictor, MarkerPredictor, UniformPredictor
from zerofleet import games
from zerofleet.client import AsyncModel
from zerofleet.prediction import Predictor
from zerofleet.services.inference.backend import PinnedPredictor

GAME = "tic_tac_toe"
RUN = "contract"
KINDS = ["uniform", "marker", "hash", "in process", "stream", "unary"]


@pytest.fixture(params=KINDS)
def predictor(request: Any, in_process: Any, over_wire: Any) -> Any:
    """``async with predictor() as it``."""

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[Predictor]:
        async with contextlib.AsyncExitStack() as stack:
            if request.param == "in process":
                parts = await stack.enter_async_context(in_process())
                yield PinnedPredictor(parts.batcher, await parts.models.get(None))
                return
            if request.param in ("stream", "unary"):
                address = await stack.enter_async_context(over_wire())
                model = await stack.enter_async_context(AsyncModel(address, RUN, timeout=120))
                if request.param == "unary":
                    yield model
                else:
                    yield await stack.enter_async_context(model.stream())
                return
            fakes = {"uniform": UniformPredictor, "marker": MarkerPredictor, "hash": HashPredictor}
            yield fakes[request.param](GAME, 2)

    return opened


def _positions(count: int) -> np.ndarray:
    """The first positions of one game, over and over."""
    state, rows = games.State(GAME), []
    for action in (4, 0, 8, 2, 6):
        rows.append(state.observation())
        state.apply(action)
    return np.stack([rows[row % len(rows)] for row in range(count)])


@pytest.mark.parametrize("rows", [1, 5, 64])
async def test_shapes_dtypes_ranges_version(predictor: Any, rows: int) -> None:
    async with predictor() as it:
        prediction = await it.predict(_positions(rows))
    assert prediction.policy_logits.shape == (rows, games.spec(GAME).num_actions)
    assert prediction.policy_logits.dtype in (np.float16, np.float32)
    assert prediction.value.shape == (rows,)
    assert prediction.value.dtype == np.float32
    assert np.isfinite(prediction.policy_logits).all()
    assert (np.abs(prediction.value) <= 1).all()
    assert prediction.model_version == 2


async def test_a_row_is_answered_alike_in_any_batch(predictor: Any) -> None:
    async with predictor() as it:
        together = await it.predict(_positions(10))
        alone = [await it.predict(_positions(10)[row : row + 1]) for row in range(10)]
    for row, prediction in enumerate(alone):
        np.testing.assert_array_equal(prediction.policy_logits[0], together.policy_logits[row])
        np.testing.assert_array_equal(prediction.value[0], together.value[row])


async def test_calls_in_flight_are_not_mixed_up(predictor: Any) -> None:
    positions = _positions(5)
    async with predictor() as it:
        expected = await it.predict(positions)
        answers = await asyncio.gather(
            *(it.predict(positions[call % 5 : call % 5 + 1]) for call in range(50))
        )
    for call, prediction in enumerate(answers):
        np.testing.assert_array_equal(prediction.policy_logits[0], expected.policy_logits[call % 5])


async def test_the_callers_array_may_change_after_the_call(predictor: Any) -> None:
    positions = _positions(5)
    async with predictor() as it:
        expected = await it.predict(_positions(5))
        answer = await it.predict(positions)
        positions[:] = 0
        np.testing.assert_array_equal(answer.policy_logits, expected.policy_logits)
