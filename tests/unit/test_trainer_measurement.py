"""Results of a measurement, compared with values computed by hand."""

import numpy as np
import pytest
import torch

from zerofleet.fleet.figures import Measurement
from zerofleet.learning.measurement import TracedBatch, measurement


def measured(
    value: list[float],
    result: list[float],
    *,
    value_target: list[float] | None = None,
    ply: list[int] | None = None,
    observations: list[int] | None = None,
    age: list[int] | None = None,
) -> Measurement:
    size = len(value)
    pi = np.full((size, 2), 0.5, np.float32)
    traced = TracedBatch(
        (
            np.asarray(observations or range(size), np.uint8)[:, np.newaxis],
            pi,
            np.asarray(value_target or result, np.float32),
        ),
        ply=np.asarray(ply or [0] * size, np.int32),
        game_length=np.full(size, 10, np.int32),
        game_age=np.asarray(age or [0] * size, np.int64),
        result=np.asarray(result, np.float32),
    )
    policy_logits = torch.tensor([[0.0, np.log(3.0)]] * size, dtype=torch.float32)
    return measurement(traced, policy_logits, torch.tensor(value), 2.0, torch.tensor(0.5))


def test_search_kl_is_the_cross_entropy_above_its_least() -> None:
    found = measured([0.0], [0.0])
    kl = 0.5 * np.log(0.5 / 0.25) + 0.5 * np.log(0.5 / 0.75)
    assert found.search_kl == pytest.approx(kl, rel=1e-5)
    assert found.target_entropy == pytest.approx(np.log(2), rel=1e-6)
    assert found.policy_loss == pytest.approx(kl + np.log(2), rel=1e-6)


def test_explained_variance_and_bias() -> None:
    found = measured([0.5, -0.5, 0.5, 0.5], [1.0, -1.0, 1.0, -1.0])
    assert found.value_loss == pytest.approx((0.25 * 3 + 2.25) / 4)
    assert found.explained_variance == pytest.approx(1 - 0.75 / 1.0)
    assert found.value_bias == pytest.approx(0.25)
    assert found.total_loss == pytest.approx(found.policy_loss + 2 * 0.75 + 0.5)


def test_what_is_learnt_may_be_another_thing_than_how_games_ended() -> None:
    found = measured([0.5, -0.5], [1.0, -1.0], value_target=[0.5, -0.5])
    assert found.value_loss == 0
    assert found.explained_variance == pytest.approx(0.75)
    assert found.calibration[0].squared_error == pytest.approx(0.25)
    assert measured([0.5], [-1.0], value_target=[0.5]).value_bias == pytest.approx(1.5)


def test_results_that_are_all_the_same_explain_nothing() -> None:
    assert measured([0.5, 0.4], [1.0, 1.0]).explained_variance is None


def test_calibration_by_quarter_of_the_game() -> None:
    found = measured(
        [0.5, 0.1, 0.2, -0.5],
        [1.0, -1.0, 1.0, -1.0],
        ply=[0, 2, 3, 9],  # games of 10 plies
    )
    rows = [
        (s.stage, s.positions, s.predicted, s.actual, s.squared_error) for s in found.calibration
    ]
    assert rows == [
        (1, 2, pytest.approx(0.3), 0.0, pytest.approx((0.25 + 1.21) / 2)),
        (2, 1, pytest.approx(0.2), 1.0, pytest.approx(0.64)),
        (4, 1, pytest.approx(-0.5), -1.0, pytest.approx(0.25)),
    ]


def test_distinct_positions_and_their_age() -> None:
    found = measured([0.0] * 4, [0.0] * 4, observations=[7, 7, 8, 7], age=[0, 2, 4, 10])
    assert found.distinct_share == 0.5
    assert found.age_games == 4.0


def test_standard_error_counts_games() -> None:
    """Two positions in each of two games are as certain as two observations, not as four."""
    values, results = [0.0] * 4, [1.0, 1.0, 0.0, 0.0]
    games = measured(values, results, age=[0, 0, 5, 5])
    positions = measured(values, results, age=[0, 1, 2, 3])
    assert games.value_error == pytest.approx((0.5 / 2) ** 0.5)  # two numbers with variance 1/2
    # four numbers with variance 1/3
    assert positions.value_error == pytest.approx((1 / 3 / 4) ** 0.5)
    assert measured(values, results, age=[3, 3, 3, 3]).value_error is None
    assert games.policy_error == pytest.approx(0.0, abs=1e-6)


def test_losses_that_are_no_numbers() -> None:
    assert measured([0.0], [0.0]).is_finite
    assert not measured([float("nan")], [0.0]).is_finite
