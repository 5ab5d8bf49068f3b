"""The activity of a service, in words."""

from dataclasses import replace

import pytest

from zerofleet.cli.run_figures import one_line
from zerofleet.fleet.figures import KINDS, EvaluatorFigures, InferenceFigures
from zerofleet.fleet.report import RunFigures, ServiceState, work_words

MATCH = EvaluatorFigures(
    match_in_play=True, candidate=9, match_games=23, match_most_games=64, match_score=0.6087
)
TRIAL = EvaluatorFigures(trial_in_play=True, trial_games=18, trial_most_games=40, trial_score=0.5)
RATING = EvaluatorFigures(
    rating_in_play=True, rating_player=12, rating_player_games=18, rating_player_most_games=40
)


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        (replace(MATCH, rating_in_play=True), "Evaluating model 9: 23 of 64 games, score 0.61"),
        (
            EvaluatorFigures(match_in_play=True, candidate=9, match_most_games=8),
            "Evaluating model 9: 0 of 8 games",
        ),
        (TRIAL, "Playing a test match: 18 of 40 games, score 0.50"),
        (replace(RATING, match_games=23), "Rating model 12: 18 of 40 games"),
        (replace(RATING, rating_in_play=False), "Running"),
        (EvaluatorFigures(best_version=3), "Running"),
    ],
)
def test_an_evaluator_says_how_far_it_is(figures: EvaluatorFigures, words: str) -> None:
    assert work_words(figures) == words


def test_every_service_has_words() -> None:
    assert {service: work_words(kind()) for service, kind in KINDS.items()} == {
        "selfplay": "Running",
        "inference": "Running",
        "trainer": "Running",
        "evaluator": "Running",
        "autoscaler": "Running",
        "dashboard": "Running (0 open pages)",
    }
    assert work_words(InferenceFigures(devices=2)) == "Running on 2 GPUs"


def test_the_line_of_up_tells_of_the_evaluator_at_work() -> None:
    figures = RunFigures(
        run="r",
        game="connect_four",
        games=0,
        positions=0,
        games_last_hour=0,
        games_per_hour=0.0,
        positions_per_second=0.0,
        models=1,
        promotions=1,
        has_exam=False,
    )
    services = [
        ServiceState("trainer", "Running (paced to self-play)"),
        ServiceState("evaluator", "Rating model 12: 18 of 40 games"),
    ]
    line = one_line(figures, services, 1.0)
    assert line.endswith("| evaluator: Rating model 12: 18 of 40 games")
    assert "paced" not in line
