"""The page of the largest mistakes: which games it shows, and the words for them."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from zerofleet.services.dashboard.frame import models_words
from zerofleet.services.dashboard.mistakes_page import mistakes_of, signed


def a_row(moves: str, ply: int, start: str | None = None) -> Any:
    values = {"value": 0.5, "result": -1, "regret": 2.25, "games": 1}
    return SimpleNamespace(game_uid="a", ply=ply, model=1, moves=moves, start=start, **values)


def test_games_that_do_not_replay_are_left_out() -> None:
    rows = [
        a_row("b2 b2 a1", 1),
        a_row("b2 a1", 1, start="no position"),
        a_row("b2", 1),
        a_row("b2 a1 c3", 1),
    ]
    [mistake] = mistakes_of("tic_tac_toe", rows)
    assert (mistake.moves, mistake.actions, mistake.action) == ("b2", (4,), 0)


def test_the_words_say_whose_value_and_result_it_is() -> None:
    [mistake] = mistakes_of("tic_tac_toe", [a_row("b2 a1", 1)])
    assert mistake.words == "Model 1 played a1 and expected +0.50 for O. O lost."
    level = replace(mistake, value=-0.001, result=0)
    assert level.words == "Model 1 played a1 and expected 0.00 for O. It was a draw."
    unnamed = replace(mistake, player="the second player", result=1)
    assert unnamed.words.endswith(" for the second player. The second player won.")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.314, "+0.31"), (-0.316, "-0.32"), (0.004, "0.00"), (-0.004, "0.00"), (-1.0, "-1.00")],
)
def test_a_value_has_a_sign_except_zero(value: float, text: str) -> None:
    assert signed(value) == text


def test_a_game_of_self_play_names_its_first_and_last_model() -> None:
    assert models_words((3, None)) == "model 3"
    assert models_words((3, 3)) == "model 3"
    assert models_words((2, 1, 1, 3)) == "models 1 to 3"
