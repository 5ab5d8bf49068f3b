"""The exam of Connect Four against players whose result is known."""

import numpy as np
import pytest
from numpy.typing import NDArray
from zerofleet_core import State, connect_four_outcome

from zerofleet.exam import examine
from zerofleet.exam.sample import LabelledPosition, connect_four_sample
from zerofleet.prediction import Prediction

SIZE = 40


@pytest.fixture
async def sample() -> tuple[LabelledPosition, ...]:
    return await connect_four_sample(SIZE, seed=1)


class KnowsTheSample:
    """Plays the action of best (``sign`` 1) or worst (-1) outcome in each position of a sample."""

    def __init__(self, sample: tuple[LabelledPosition, ...], sign: int) -> None:
        self.logits: dict[bytes, list[float]] = {}
        for position in sample:
            observation = State("connect_four", position.actions).observation()
            self.logits[observation.tobytes()] = [
                0.0 if outcome is None else 12.0 * sign * outcome for outcome in position.outcomes
            ]

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        logits = [self.logits.get(row.tobytes(), [0.0] * 7) for row in observations]
        return Prediction(np.array(logits, np.float16), np.zeros(len(observations), np.float32), 1)


@pytest.mark.slow
async def test_perfect_and_worst_play(sample: tuple[LabelledPosition, ...]) -> None:
    async def error_rate(sign: int) -> float:
        predictor = KnowsTheSample(sample, sign)
        result = await examine("connect_four", predictor, num_simulations=2, positions=SIZE, seed=1)
        assert (result.game, result.positions) == ("connect_four", SIZE)
        return result.error_rate

    assert await error_rate(1) == 0.0
    assert await error_rate(-1) == 1.0


@pytest.mark.slow
async def test_the_sample_is_what_it_says(sample: tuple[LabelledPosition, ...]) -> None:
    seen: set[bytes] = set()
    for position in sample:
        state = State("connect_four", position.actions)
        assert 10 <= state.ply <= 30
        assert not state.is_terminal
        outcomes = [outcome for outcome in position.outcomes if outcome is not None]
        assert len(set(outcomes)) > 1
        assert max(outcomes) == connect_four_outcome(position.actions)
        seen.add(state.observation().tobytes())
        legal = [column for column, each in enumerate(position.outcomes) if each is not None]
        assert legal == state.legal_actions()
        assert [position.is_error(column) for column in legal] == [
            each != max(outcomes) for each in outcomes
        ]
    assert len(seen) == SIZE


async def test_the_seed_decides_the_sample() -> None:
    assert await connect_four_sample(3, seed=1) == (await connect_four_sample(40, seed=1))[:3]
    assert await connect_four_sample(3, seed=2) != await connect_four_sample(3, seed=1)


async def test_a_request_has_no_more_rows_than_the_server_takes(
    sample: tuple[LabelledPosition, ...],
) -> None:
    rows: list[int] = []

    class Counts(KnowsTheSample):
        async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
            rows.append(len(observations))
            return await super().predict(observations)

    predictor = Counts(sample, 1)
    result = await examine(
        "connect_four", predictor, num_simulations=2, positions=SIZE, seed=1, most_rows=16
    )
    assert (result.positions, max(rows)) == (SIZE, 16)
