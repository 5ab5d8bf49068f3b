"""Learning rates and window sizes as a run goes on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerofleet.config import TrainerSection
from zerofleet.learning.schedule import learning_rate, window_limit, window_reach

RATES = {"learning_rate": (0.1, 0.01, 0.001), "learning_rate_steps": (200, 300)}


@pytest.mark.parametrize(
    ("step", "rate"), [(0, 0.1), (199, 0.1), (200, 0.01), (299, 0.01), (300, 0.001), (9_999, 0.001)]
)
def test_rates_change_at_their_steps(step: int, rate: float) -> None:
    assert learning_rate(TrainerSection(**RATES), step, 1_000_000, 0) == rate


def test_the_rate_rises_from_a_twentieth_in_a_straight_line() -> None:
    settings = TrainerSection(**RATES, warmup_samples=100)
    rates = [learning_rate(settings, 0, samples, 0) for samples in (0, 50, 99, 100, 250)]
    assert rates == pytest.approx([0.005, 0.0525, 0.09905, 0.1, 0.1])


def test_the_rate_falls_to_a_twentieth_along_a_cosine_at_the_end_of_a_budget() -> None:
    settings = TrainerSection(**RATES, budget_samples=1_000, annealing_share=0.5, warmup_samples=0)
    rates = [learning_rate(settings, 0, samples, 0) for samples in (0, 500, 750, 1_000, 9_999)]
    assert rates == pytest.approx([0.1, 0.1, 0.0525, 0.005, 0.005])


def test_a_budget_of_minutes_is_used_up_by_the_clock() -> None:
    settings = TrainerSection(**RATES, budget_minutes=2, annealing_share=0.5)
    rates = [learning_rate(settings, 0, 10**9, seconds) for seconds in (0, 60, 90, 120, 9_999)]
    assert rates == pytest.approx([0.1, 0.1, 0.0525, 0.005, 0.005])


@pytest.mark.parametrize(
    ("samples", "seconds", "used"), [(0, 0, 0), (100, 30, 0.5), (900, 30, 0.9), (0, 600, 10)]
)
def test_of_two_budgets_the_one_nearer_to_its_end_counts(
    samples: int, seconds: float, used: float
) -> None:
    both = TrainerSection(budget_samples=1_000, budget_minutes=1)
    assert both.budget_used(samples, seconds) == used
    assert TrainerSection().budget_used(samples, seconds) is None


def test_warm_up_goes_with_steps_too() -> None:
    settings = TrainerSection(**RATES, warmup_samples=1_000)
    assert learning_rate(settings, 200, 500, 0) == pytest.approx(0.01 * 0.525)


def test_a_budget_ends_in_the_middle_of_warm_up() -> None:
    settings = TrainerSection(**RATES, warmup_samples=1_000, budget_minutes=1)
    assert learning_rate(settings, 0, 500, 60) == pytest.approx(0.1 / 20)


def growing(**options: float) -> TrainerSection:
    return TrainerSection(growing_window=True, window_positions=100_000_000, **options)


@pytest.mark.parametrize(
    ("positions", "limit"),
    [(0, 0.25), (0.25, 0.25), (1, 0.494), (10, 2.24), (100, 12.05), (241, 23.2)],
)
def test_the_window_grows_as_the_paper_says(positions: float, limit: float) -> None:
    """Millions; Wu 2019 gives c = 250,000, alpha = 0.75, beta = 0.4 and about 22 at the end."""
    found = window_limit(growing(), int(positions * 1e6))
    assert found / 1e6 == pytest.approx(limit, rel=5e-3)


def test_memory_bounds_the_growing_window_too() -> None:
    settings = TrainerSection(growing_window=True, window_positions=300_000)
    assert window_limit(settings, 10_000_000) == 300_000
    assert (
        window_limit(TrainerSection(growing_window=False, window_positions=300_000), 5) == 300_000
    )


@given(st.integers(0, 10_000_000), st.integers(1, 1_000), st.integers(1, 500_000))
def test_what_has_left_the_window_is_never_wanted_again(
    positions: int, more: int, least: int
) -> None:
    settings = growing(growing_window_positions=least)
    before, after = window_limit(settings, positions), window_limit(settings, positions + more)
    assert before <= after <= before + more


def test_the_window_reaches_past_the_games_that_are_held_out() -> None:
    assert window_reach(TrainerSection(window_games=950, held_out_share=0.05)) == 1_000
    assert window_reach(TrainerSection(window_games=950, held_out_share=0.0)) == 950
