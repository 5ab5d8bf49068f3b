"""Ratings: against closed forms, against brute force over the likelihood, and their gauge."""

import math

import numpy as np
import pytest

from zerofleet.services.evaluator.rating import ELO_PER_UNIT, Rating, Result, rate


def elos(ratings: list[Rating]) -> dict[str, float]:
    return {rating.player: rating.elo for rating in ratings}


def test_nobody_played() -> None:
    assert rate([]) == []
    assert rate([Result("2", "1", 0, 0, 0)]) == []


def test_two_models_that_only_draw_rate_equal() -> None:
    anchor, other = rate([Result("2", "1", 0, 100, 0)])
    assert (anchor.player, anchor.elo, anchor.error) == ("1", 0.0, 0.0)
    assert other.player == "2"
    assert other.elo == pytest.approx(0.0, abs=1e-6)
    assert 30.0 < other.error < 40.0


def test_two_models_have_a_closed_form() -> None:
    """With one virtual draw the odds are the points with a half more on each side."""
    _, other = rate([Result("2", "1", 70, 10, 20)])
    won, lost = 75.5, 25.5
    assert other.elo == pytest.approx(400 * math.log10(won / lost), abs=0.1)
    share = won / (won + lost)
    error = ELO_PER_UNIT / math.sqrt((won + lost) * share * (1 - share))
    assert other.error == pytest.approx(error, rel=1e-3)


def test_a_clean_sweep_has_a_finite_rating() -> None:
    _, other = rate([Result("2", "1", 100, 0, 0)])
    assert 800.0 < other.elo < 1000.0
    assert 200.0 < other.error < 600.0


def test_results_of_one_pair_add_up_in_any_order_and_view() -> None:
    together = rate([Result("2", "1", 60, 10, 30), Result("3", "2", 20, 0, 5)])
    apart = rate(
        [Result("2", "3", 5, 0, 20), Result("1", "2", 10, 4, 20), Result("2", "1", 40, 6, 20)]
    )
    for one, other in zip(together, apart, strict=True):
        assert one.player == other.player
        assert one.elo == pytest.approx(other.elo)
        assert one.error == pytest.approx(other.error)


def test_ratings_and_errors_are_those_of_brute_force() -> None:
    """Coordinate search over the log-posterior, and its Hessian by differences."""
    results = [
        Result("2", "1", 30, 5, 15),
        Result("3", "2", 22, 10, 18),
        Result("3", "1", 9, 0, 1),
        Result("4", "3", 12, 2, 26),
    ]

    def log_posterior(strengths: np.ndarray) -> float:
        total = 0.0
        for result in results:
            gap = strengths[int(result.player) - 1] - strengths[int(result.opponent) - 1]
            beats, loses = -math.log1p(math.exp(-gap)), -math.log1p(math.exp(gap))
            won = result.wins + result.draws / 2 + 0.5
            lost = result.losses + result.draws / 2 + 0.5
            total += won * beats + lost * loses
        return total - 0.5 * (ELO_PER_UNIT / 50_000) ** 2 * float((strengths**2).sum())

    best = np.zeros(4)
    step = 1.0
    while step > 1e-7:
        moved = False
        for player in (1, 2, 3):
            for sign in (1, -1):
                tried = best.copy()
                tried[player] += sign * step
                if log_posterior(tried) > log_posterior(best):
                    best, moved = tried, True
        step = step if moved else step / 2
    hessian = np.zeros((3, 3))
    width = 1e-3
    for i in range(3):
        for j in range(3):
            for a, b in ((1, 1), (-1, -1), (1, -1), (-1, 1)):
                tried = best.copy()
                tried[i + 1] += a * width
                tried[j + 1] += b * width
                hessian[i, j] += a * b * log_posterior(tried) / (4 * width**2)
    errors = np.sqrt(np.diag(np.linalg.inv(-hessian)))

    ratings = rate(results)
    assert [r.elo for r in ratings] == pytest.approx(list(best * ELO_PER_UNIT), abs=0.01)
    assert [r.error for r in ratings[1:]] == pytest.approx(list(errors * ELO_PER_UNIT), rel=1e-3)
    assert ratings[0].error == 0.0


def test_a_long_ladder_converges_to_the_sum_of_its_rungs() -> None:
    """Sixty models, each 64 points of 100 from the one before: where slow iterations stop short."""
    rungs = 60
    results = [Result(str(version + 1), str(version), 64, 0, 36) for version in range(1, rungs)]
    ratings = rate(results)
    rung = 400 * math.log10(64.5 / 36.5)
    assert ratings[-1].elo == pytest.approx(rung * (rungs - 1), rel=0.005)
    assert ratings[-1].error == pytest.approx(ratings[1].error * math.sqrt(rungs - 1), rel=0.01)


def test_the_oldest_model_that_played_is_the_anchor_even_without_version_1() -> None:
    assert elos(rate([Result("7", "5", 3, 0, 1)]))["5"] == 0.0


def test_models_that_never_met_the_anchors_circle_have_an_error_that_says_so() -> None:
    ratings = {r.player: r for r in rate([Result("2", "1", 5, 0, 5), Result("9", "8", 30, 0, 10)])}
    assert ratings["2"].error < 200
    assert ratings["9"].error > 3000
    assert ratings["9"].elo > ratings["8"].elo


def test_anchors_come_after_the_models_and_are_never_at_zero() -> None:
    results = [
        Result("10", "random", 40, 0, 10),
        Result("9", "10", 25, 0, 25),
        Result("gnugo:1", "9", 30, 0, 20),
    ]
    ratings = rate(results)
    assert [rating.player for rating in ratings] == ["9", "10", "gnugo:1", "random"]
    assert ratings[0].elo == 0.0
    assert ratings[2].elo > 0 > ratings[3].elo
