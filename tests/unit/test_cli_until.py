"""``--until``: the ends that there are, how far a run is from each, and when it is reached."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from zerofleet.cli.local_run import Ending, Until
from zerofleet.config import RunConfig, run_from_values
from zerofleet.errors import ConfigError
from zerofleet.fleet.report import Exam, RunFigures
from zerofleet.local.start import LastCheckpoint

NOTHING = RunFigures("r", "tic_tac_toe", 0, 0, 0, 0.0, 0.0, 0, 0, True)


def run(**trainer: Any) -> RunConfig:
    return run_from_values({
        "name": "r",
        "game": "tic_tac_toe",
        "trainer": trainer,
        "goal": {"exam_error_rate": 0.1},
    })  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kind", "amount"),
    [
        ("90s", "seconds", 90),
        ("1.5m", "seconds", 90),
        ("2h", "seconds", 7200),
        ("1h30m", "seconds", 5400),
        ("1h 30m 5s", "seconds", 5405),
        ("5000steps", "step", 5000),
        ("1 step", "step", 1),
        ("20_000games", "game", 20_000),
        ("20,000 games", "game", 20_000),
        ("goal", "goal", 0),
        ("budget", "budget", 0),
        ("forever", "forever", 0),
    ],
)
def test_the_ends(text: str, kind: str, amount: float) -> None:
    until = Until.parse(text)
    assert (until.kind, until.amount) == (kind, amount)


@pytest.mark.parametrize(
    "text",
    [
        f"{'9' * 5000}games",
        f"{'9' * 400}s",
        "1,5steps",
        "5,,steps",
        "1_0000games",
        "\u0663s",
        "0s",
        "",
        " ",
        "5m1h",
        "1h5m2m",
    ],
)
def test_what_is_no_end_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="give a time"):
        Until.parse(text)


@pytest.mark.parametrize(
    ("text", "before", "after", "seconds", "progress"),
    [
        ("10m", NOTHING, NOTHING, 600.0, "5 min 0 s of 10 min 0 s"),
        ("40games", replace(NOTHING, games=20), replace(NOTHING, games=40), 0, "20 of 40 games"),
        ("4000steps", replace(NOTHING, steps=2000), replace(NOTHING, steps=4001), 0,
            "2,000 of 4,000 steps"),
        ("budget", replace(NOTHING, budget_used=0.5), replace(NOTHING, budget_used=1.0), 0,
            "50% of the training budget"),
    ],
)  # fmt: skip
def test_how_far_a_run_is(
    text: str, before: RunFigures, after: RunFigures, seconds: float, progress: str
) -> None:
    ending = Ending(Until.parse(text), run(budget_samples=100), None)
    assert not ending.is_reached(before, seconds / 2)
    assert ending.progress(before, seconds / 2) == progress
    assert ending.report(before, seconds / 2, at_start=False) == (
        f"\nNot reached yet: --until {text}: {progress}."
    )
    assert ending.is_reached(after, seconds)
    told = str(ending.report(after, seconds, at_start=False))
    assert told.startswith(f"\nEnded by --until {text}: ")


def test_the_time_that_is_left() -> None:
    ending = Ending(Until.parse("10m"), run(), None)
    assert [ending.seconds_left(seconds) for seconds in (0.0, 590.0, 700.0)] == [600.0, 10.0, 0.0]
    assert Ending(Until.parse("10games"), run(), None).seconds_left(1.0) == math.inf


def test_a_checkpoint_says_how_far_training_is_while_no_trainer_does() -> None:
    there = LastCheckpoint(Path(), "r", "tic_tac_toe", 500, 60, 30.0, {})
    for text, end in (("500steps", 1.0), ("501steps", 0.0), ("budget", 1.0)):
        ending = Ending(Until.parse(text), run(budget_samples=60), there)
        assert ending.is_reached(NOTHING, 0.0) == bool(end)
    ending = Ending(Until.parse("500steps"), run(), there)
    assert ending.report(NOTHING, 0.0, at_start=True) == (
        "\nNothing to do. --until 500steps was reached before this start: the run has 500 steps. "
        "To train further, give a higher total, such as --until 1000steps, or no --until."
    )
    ending = Ending(Until.parse("budget"), run(budget_minutes=0.5, budget_samples=600), there)
    assert ending.is_reached(NOTHING, 0.0)
    told = str(ending.report(NOTHING, 0.0, at_start=True))
    assert "budget was used up before this start" in told
    assert "raise trainer.budget_minutes or trainer.budget_samples" in told


def test_the_goal_and_no_end_at_all() -> None:
    until = Until.parse("goal").of_run(run(), Path("run.toml"))
    ending = Ending(until, run(), None)
    assert not ending.is_reached(NOTHING, 1e9)
    assert "is not reached yet" in str(ending.report(NOTHING, 0.0, at_start=False))
    reached = replace(NOTHING, exams=(Exam(3, 10, 100, 5, 0.05),))
    assert ending.is_reached(reached, 0.0)
    assert "Goal reached: model 3" in str(ending.report(reached, 0.0, at_start=False))
    told = str(ending.report(reached, 0.0, at_start=True))
    assert "before this start" in told
    assert "lower exam_error_rate in [goal]" in told
    forever = Ending(Until.parse("forever"), run(), None)
    assert not forever.is_set
    assert not forever.is_reached(reached, 1e9)
    assert forever.progress(reached, 1.0) is forever.report(reached, 1.0, at_start=False) is None
    with pytest.raises(ConfigError, match="has no budget"):
        Until.parse("budget").of_run(run(), Path("run.toml"))
