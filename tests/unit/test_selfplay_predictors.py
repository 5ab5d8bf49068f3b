"""The predictors of tests are functions of the observation alone."""

import numpy as np
import pytest

from tests.support.predictors import HashPredictor, MarkerPredictor, UniformPredictor
from zerofleet import games
from zerofleet.prediction import Predictor

GAME = "connect_four"


def observations(rows: int) -> np.ndarray:
    spec = games.spec(GAME)
    return np.random.default_rng(1).integers(0, 256, (rows, spec.observation_bytes), np.uint8)


@pytest.mark.parametrize(
    "predictor", [UniformPredictor(GAME, 3), MarkerPredictor(GAME, 3), HashPredictor(GAME, 3)]
)
async def test_shapes_and_types(predictor: Predictor) -> None:
    prediction = await predictor.predict(observations(5))
    assert prediction.policy_logits.shape == (5, games.spec(GAME).num_actions)
    assert prediction.policy_logits.dtype == np.float16
    assert prediction.value.shape == (5,)
    assert prediction.value.dtype == np.float32
    assert np.abs(prediction.value).max() <= 1.0
    assert prediction.model_version == 3


async def test_a_marker_tells_its_version() -> None:
    for version in (1, 77, 1024):
        prediction = await MarkerPredictor(GAME, version).predict(observations(4))
        assert MarkerPredictor.decode(prediction.value).tolist() == [version] * 4
    with pytest.raises(ValueError, match="1025"):
        MarkerPredictor(GAME, 1025)


async def test_opinions_depend_on_the_position_and_the_version_alone() -> None:
    rows = observations(6)
    batch = await HashPredictor(GAME, 1).predict(rows)
    alone = await HashPredictor(GAME, 1).predict(rows[2:3])
    other = await HashPredictor(GAME, 2).predict(rows[2:3])
    assert np.array_equal(batch.policy_logits[2], alone.policy_logits[0])
    assert batch.value[2] == alone.value[0]
    assert not np.array_equal(other.policy_logits, alone.policy_logits)
    assert len(set(batch.value.tolist())) == 6
