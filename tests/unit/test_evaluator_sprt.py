"""The sequential test: a published example, closed forms, and how often it errs in simulation."""

import math

import numpy as np
import pytest

from services.evaluator.sprt import (
    elo_score,
    llr_bound,
    log_likelihood_ratio,
    logistic_elo,
    moments,
    normalized_elo,
    normalized_log_likelihood_ratio,
    regularised,
)

PUBLISHED = np.asarray([13, 37, 50, 25, 3])


def test_a_published_match() -> None:
    pairs, score, variance = moments(PUBLISHED)
    assert 2 * pairs == 256
    assert score == pytest.approx(0.43750, abs=5e-6)
    assert 2 * variance == pytest.approx(0.11523, abs=5e-6)
    assert normalized_elo(PUBLISHED) == pytest.approx(-63.97, abs=5e-3)
    assert logistic_elo(float(score)) == pytest.approx(-43.658, abs=5e-4)
    ratio = normalized_log_likelihood_ratio(PUBLISHED, (0.0, 4.0))
    assert ratio == pytest.approx(-0.54012, abs=5e-6)
    assert llr_bound(0.05) == pytest.approx(2.9444, abs=5e-5)


def test_elo_and_score_are_inverse() -> None:
    assert elo_score(0.0) == 0.5
    assert elo_score(35.0) == pytest.approx(0.55, abs=5e-4)
    for elo in (-200.0, 0.0, 35.0):
        assert logistic_elo(elo_score(elo)) == pytest.approx(elo)


def test_the_ratio_changes_sign_with_the_sides() -> None:
    ratio = log_likelihood_ratio(PUBLISHED, (0.0, 35.0))
    assert ratio < 0
    assert log_likelihood_ratio(PUBLISHED[::-1], (0.0, -35.0)) == pytest.approx(ratio)
    assert log_likelihood_ratio(PUBLISHED, (35.0, 0.0)) == pytest.approx(-ratio)


def test_many_counts_at_once() -> None:
    both = np.stack([PUBLISHED, PUBLISHED[::-1]])
    ratios = log_likelihood_ratio(both, (0.0, 35.0))
    assert ratios.shape == (2,)
    assert ratios[0] == log_likelihood_ratio(PUBLISHED, (0.0, 35.0))


def test_pairs_that_end_alike_are_no_certainty() -> None:
    """Pairs of a win and a loss each: the ratio reaches its bound when the exact one does."""
    equal = np.asarray([0, 0, 1, 0, 0])
    for pairs in (10, 20, 28):
        exact = pairs * math.log(1 - 2 * (elo_score(35.0) - 0.5))
        ratio = log_likelihood_ratio(regularised(pairs * equal), (0.0, 35.0))
        assert ratio == pytest.approx(exact, abs=0.55)
    assert exact == pytest.approx(-llr_bound(0.05), rel=0.01)
    sweep = np.asarray([0, 0, 0, 0, 2])
    assert log_likelihood_ratio(regularised(sweep), (0.0, 35.0)) < llr_bound(0.05)


def _pair_distribution(elo: float, draws: float, swing: float) -> np.ndarray:
    """Probabilities of the five outcomes; the opening favours one side by ``swing`` of score."""
    pair = np.zeros(5)
    for favour in (swing, -swing):
        games = []
        for shift in (favour, -favour):
            win = elo_score(elo) + shift - draws / 2
            games.append(np.asarray([1 - win - draws, draws, win]))
        pair += np.convolve(*games) / 2
    return pair


@pytest.mark.parametrize(("draws", "swing"), [(0.0, 0.0), (0.1, 0.3), (0.5, 0.1)])
def test_wrong_verdicts_are_about_as_rare_as_promised(draws: float, swing: float) -> None:
    """Two thousand matches under each hypothesis, looked at after every pair."""
    generator = np.random.default_rng(1)
    matches, most_pairs, bound = 2_000, 3_000, llr_bound(0.05)
    for truth, wrong in ((0.0, 1), (35.0, -1)):
        probabilities = _pair_distribution(truth, draws, swing)
        counts = np.zeros((matches, 5))
        open_ = np.ones(matches, np.bool_)
        verdicts = np.zeros(matches, np.int8)
        for _ in range(most_pairs):
            drawn = generator.choice(5, size=int(open_.sum()), p=probabilities)
            counts[np.flatnonzero(open_), drawn] += 1
            ratios = log_likelihood_ratio(regularised(counts[open_]), (0.0, 35.0))
            verdicts[open_] = np.where(ratios >= bound, 1, np.where(ratios <= -bound, -1, 0))
            open_ = verdicts == 0
            if not open_.any():
                break
        assert not open_.any()
        assert 0.02 < (verdicts == wrong).mean() < 0.065
