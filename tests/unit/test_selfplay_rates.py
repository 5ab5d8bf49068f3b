"""A worker's rates: of the last half minute, and even though its plies come in waves."""

from __future__ import annotations

from typing import Any, cast

import pytest

from zerofleet.config import run_from_values
from zerofleet.search_configs import selfplay_search
from zerofleet.services.selfplay.game_storage import GameWriter
from zerofleet.services.selfplay.pace import Pause, PlayTotals, PlyCost, Rates
from zerofleet.waiting import Waits


def cost(**play: Any) -> PlyCost:
    values = {
        "name": "test",
        "preset": "plain",
        "game": "connect_four",
        "search": {"num_simulations": 100},
        "selfplay": {
            "games_per_engine": 8,
            "engines": 2,
            "full_search_share": 0.25,
            "fast_simulations": 20,
            **play,
        },
        "trainer": {"held_out_share": 0.2},
    }
    run = run_from_values(values)
    return PlyCost(run, selfplay_search(run))


def test_a_new_worker_costs_what_the_run_file_says() -> None:
    """A quarter of the plies costs 100, the others 20; a fifth of the games is held out."""
    found = cost().training_positions(400.0, PlayTotals(plies=3, simulations=10_000))
    assert found == pytest.approx(400 / 40 * 0.25 * 0.8)


def test_one_that_has_played_costs_what_it_did() -> None:
    found = cost().training_positions(400.0, PlayTotals(plies=4 * 16, simulations=64 * 25))
    assert found == pytest.approx(400 / 25 * 0.25 * 0.8)


def test_a_ply_costs_what_the_newest_ones_did() -> None:
    plies, simulations, one = 0, 0, cost()
    for each in (10, 20, 40, 80):  # simulations grow with the models
        plies, simulations = plies + 64, simulations + 64 * each
        found = one.training_positions(400.0, PlayTotals(plies=plies, simulations=simulations))
    assert found == pytest.approx(400 / 80 * 0.25 * 0.8)


def test_rates_are_of_the_last_half_minute() -> None:
    rates = Rates(cost())
    for second in range(60):
        found = rates.take(float(second), PlayTotals(simulations=1 + 40 * second, plies=second))
    assert found.simulations_per_second == pytest.approx(40)
    for second in range(60, 91):
        found = rates.take(float(second), PlayTotals(simulations=2_361, plies=59))
    assert found.simulations_per_second == 0.0
    assert found.training_positions_per_second == 0.0


def test_the_start_is_no_part_of_the_speed() -> None:
    rates = Rates(cost())
    for second in range(20):
        rates.take(float(second), PlayTotals())
    found = rates.take(20.0, PlayTotals(simulations=80))
    assert found.simulations_per_second == pytest.approx(80)


def test_says_how_long_it_waited_and_how_long_for_the_trainer() -> None:
    rates = Rates(cost())
    for second in range(31):
        found = rates.take(
            float(second),
            PlayTotals(simulations=1),
            waiting=second >= 16,
            paused=second >= 28,
        )
    assert found.waiting_share == pytest.approx(15 / 31)
    assert found.pause_share == pytest.approx(3 / 31)


def test_a_pause_for_the_trainer_goes_on_until_it_keeps_up() -> None:
    """Also while the trainer is down: neither is the worker's speed."""
    pause = Pause(cast("GameWriter", None), 100, Waits())
    assert not pause.waits_for_trainer
    for hear in (lambda: pause.hear_ahead(101.0), pause.hear_no_trainer):
        hear()
        assert pause.waits_for_trainer
        pause.hear_nothing()
        assert not pause.waits_for_trainer
