"""What a service does, in words."""

import pytest

from zerofleet.cli.progress import one_line
from zerofleet.local.monitor import Figures, ServiceState, work_words

MATCH = {
    "match_in_play": 1.0,
    "match_games": 23.0,
    "match_most_games": 64.0,
    "match_score": 0.6087,
}
VARIANT = {
    "variant_in_play": 1.0,
    "variant_version": 12.0,
    "variant_int8": 1.0,
    "variant_games": 18.0,
    "variant_most_games": 40.0,
    "variant_score": 0.5,
}
RATING = {
    "rating_in_play": 1.0,
    "rating_player": 12.0,
    "rating_player_games": 18.0,
    "rating_player_most_games": 40.0,
    "rating_games": 500.0,
}
OVER = {"match_in_play": 0.0, "variant_in_play": 0.0, "rating_in_play": 0.0}


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({**RATING, **VARIANT, **MATCH}, "plays a match: 23 of 64 games, score 0.61"),
        ({"match_in_play": 1.0, "match_most_games": 8.0}, "plays a match: 0 of 8 games"),
        (
            {**MATCH, **RATING, **VARIANT, "match_in_play": 0.0},
            "plays int8 of 12 against fp32: 18 of 40 games, score 0.50",
        ),
        ({**MATCH, **VARIANT, **RATING, **OVER, "rating_in_play": 1.0}, "rates 12: 18 of 40 games"),
        ({**MATCH, **VARIANT, **RATING, **OVER}, "judges"),
        ({"best_version": 3.0}, "judges"),
    ],
)
def test_an_evaluator_says_how_far_it_is(figures: dict[str, float], words: str) -> None:
    assert work_words("evaluator", figures) == words


def test_other_services() -> None:
    assert work_words("trainer", {"match_in_play": 1.0}) == "trains"
    assert work_words("unheard of", {}) == "works"


def test_the_line_of_up_tells_of_the_evaluator_at_work() -> None:
    figures = Figures(
        run="r",
        game="connect_four",
        games=0,
        positions=0,
        games_last_hour=0,
        games_per_hour=0.0,
        positions_per_s=0.0,
        models=1,
        promotions=1,
        has_exam=False,
    )
    services = [
        ServiceState("trainer", "trains"),
        ServiceState("evaluator", "rates 12: 18 of 40 games"),
    ]
    line = one_line(figures, services, 1.0)
    assert line.endswith("| evaluator: rates 12: 18 of 40 games")
    assert "trains" not in line
