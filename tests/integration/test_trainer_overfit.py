"""The overfit watch through the real trainer and a real database: caught, slowed, said, let go."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs

from tests.support.random_records import changed, random_record
from zerofleet.config import OverfitSection, RunConfig, run_from_values
from zerofleet.database import Database, Submission
from zerofleet.fleet.figures import TrainerFigures
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.records import GameRecord
from zerofleet.service import Pulse
from zerofleet.services.trainer import trainer as loop

pytestmark = pytest.mark.fleet  # it trains until it overfits

DEADLINE = 240.0
WINDOW = 160  # positions: about twenty games
REUSE = 320.0


def a_run(action: str = "slow", **trainer: Any) -> RunConfig:
    return run_from_values({
        "name": "overfit",
        "preset": "plain",
        "game": {"name": "tic_tac_toe"},
        "network": {"blocks": 1, "channels": 32},
        "trainer": {
            "batch_size": 64,
            "min_positions": 100,
            "window_positions": WINDOW,
            "samples_per_position": REUSE,
            "publish_every_steps": 100_000,
            "checkpoint_every_steps": 100,
            "metrics_every_steps": 10,
            "held_out_share": 0.5,
            "augment": False,
            "learning_rate": [0.05],
            **trainer,
        },
        "overfit": {"action": action, "min_positions": 100},
    })  # fmt: skip


def a_game(seed: int, *, labels_mean_something: bool) -> GameRecord:
    """A random game; its targets are chance, or the same for every position: the first action."""
    record = random_record(seed)
    weights = np.random.default_rng(seed).integers(1, 4, len(record.columns.legal_actions)) ** 6
    if labels_mean_something:
        weights = np.ones(len(record.columns.legal_actions), np.int64)
        weights[record.columns.offsets[:-1]] = 50
    weights = weights.astype(np.int32)
    return changed(
        record,
        full_search=np.ones(record.length, np.bool_),
        visit_counts=weights,
        policy_weights=weights,
    )


@dataclass
class LocalPrograms:
    """Stores and folders of one test."""

    database: Database
    valkey_url: str
    train: Callable[..., AbstractContextManager[Future[None]]]

    def __post_init__(self) -> None:
        self.beats = Heartbeats(self.valkey_url, "overfit")

    def submit(self, seeds: range, *, labels_mean_something: bool = False) -> None:
        games = [a_game(seed, labels_mean_something=labels_mean_something) for seed in seeds]
        answers = self.database.submit_games("overfit", "w", [Submission(game) for game in games])
        assert set(answers) == {"stored"}

    @contextlib.contextmanager
    def training(self, run: RunConfig) -> Iterator[None]:
        with self.train(run) as running:
            yield
            assert not running.done()
        running.result()

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.database._rows(statement)]

    def events(self) -> list[str]:
        return [event.event for event in self.database.train_events("overfit")]

    def beat(self) -> Pulse[TrainerFigures]:
        for beat in self.beats.read():
            assert isinstance(beat.figures, TrainerFigures)
            return Pulse(beat.progress, beat.waiting_for, beat.figures)
        return Pulse(0, "its start", TrainerFigures())

    def is_idle(self) -> bool:
        """Whether all that was paid for has been trained."""
        return " positions" in self.beat().waiting_for and "window" not in self.beat().waiting_for


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.fixture
def surroundings(
    database_url: str, valkey_url: str, monkeypatch: pytest.MonkeyPatch, train: Any
) -> Iterator[LocalPrograms]:
    monkeypatch.setattr(loop, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(OverfitSection, "smoothing", 0.5)
    with Database(database_url) as database:
        database.register_run(a_run())
        yield LocalPrograms(database, valkey_url, train)


def test_a_run_that_learns_by_heart_is_caught_and_slowed(surroundings: LocalPrograms) -> None:
    surroundings.submit(range(50))
    with capture_logs() as logs, surroundings.training(a_run("slow")):
        until(lambda: surroundings.events() == ["overfit_begins"])
        until(surroundings.is_idle)
        words = surroundings.beat()
    assert "slowed down: held-out above training loss by" in words.waiting_for
    assert words.figures.overfit
    assert words.figures.pace == 0.25
    assert words.figures.unspent_positions == 0

    [said] = [log for log in logs if log["event"] == "overfit_begins"]
    assert said["policy_gap"] > 0.2 or said["value_gap"] > 0.1
    [event] = surroundings.database.train_events("overfit")
    assert said["detail"] == event.detail
    assert "a new position pays for 80 samples" in event.detail
    assert "(most 0.2)" in event.detail

    rows = surroundings.query(
        "SELECT step, overfit, policy_gap, value_gap, train_policy_loss, held_out_policy_loss "
        "FROM training_curve WHERE policy_gap IS NOT NULL ORDER BY step"
    )
    assert [row[1] for row in rows] == [row[0] >= event.step for row in rows]
    last = rows[-1]
    assert last[2] > 0.2 or last[3] > 0.1
    assert last[5] > last[4]
    # The unspent budget was scaled down too: less was drawn than was paid for.
    [(drawn, reuse)] = surroundings.query(
        "SELECT max(samples), max(samples_per_position) FROM train_metrics"
    )
    assert reuse < 0.9 * REUSE
    assert drawn > 0


def test_it_goes_on_slowly_after_a_restart(surroundings: LocalPrograms) -> None:
    surroundings.submit(range(50))
    with surroundings.training(a_run("slow")):
        until(lambda: surroundings.events() == ["overfit_begins"])
    with surroundings.training(a_run("slow")):
        until(surroundings.is_idle)
        assert surroundings.beat().figures.pace == 0.25
    assert surroundings.events().count("overfit_begins") == 1


def test_a_run_that_learns_what_is_true_is_left_alone(surroundings: LocalPrograms) -> None:
    """Targets that every position shares: held-out games are predicted as well as the others."""
    healthy = a_run(
        batch_size=256,
        window_positions=100_000,
        samples_per_position=4.0,
        metrics_every_steps=2,
        learning_rate=[0.01],
    )
    surroundings.submit(range(1_200), labels_mean_something=True)
    with surroundings.training(healthy):
        until(lambda: surroundings.beat().progress > 60 and surroundings.is_idle())
    measured = surroundings.query(
        "SELECT count(*), max(policy_gap), max(value_gap) FROM training_curve "
        "WHERE policy_gap IS NOT NULL"
    )
    assert measured[0][0] >= 20
    assert measured[0][1] < 0.2
    assert measured[0][2] < 0.2
    assert surroundings.events() == []
    assert surroundings.query("SELECT bool_or(overfit) FROM train_metrics") == [(False,)]


def test_a_few_held_out_games_conclude_nothing(surroundings: LocalPrograms) -> None:
    surroundings.submit(range(50))
    run = a_run("slow")
    few = run.model_copy(
        update={"overfit": run.overfit.model_copy(update={"min_positions": 100_000})}
    )
    with surroundings.training(few):
        until(lambda: surroundings.beat().progress >= 200)  # where "slow" has long begun
    assert surroundings.events() == []
    gaps = surroundings.query("SELECT count(*), count(policy_gap) FROM train_metrics")
    assert gaps[0][0] > 0
    assert gaps[0][1] == 0


def test_waiting_ends_when_new_games_have_renewed_the_window(surroundings: LocalPrograms) -> None:
    """No step in between, and self-play hears that games are wanted."""
    surroundings.submit(range(50))
    with surroundings.training(a_run("wait")):
        until(lambda: surroundings.events() == ["overfit_begins"])
        until(lambda: surroundings.beat().waiting_for.startswith("new games, at most"))
        beat = surroundings.beat()
        assert "held-out above training loss by" in beat.waiting_for
        assert beat.figures.unspent_positions == 0
        surroundings.submit(range(50, 60))
        until(lambda: surroundings.beat().waiting_for != beat.waiting_for)
        assert surroundings.beat().progress == beat.progress
        for seed in range(60, 120, 10):
            surroundings.submit(range(seed, seed + 10))
        until(lambda: "overfit_ends" in surroundings.events())
        until(lambda: surroundings.beat().progress > beat.progress)
    begins, ends = surroundings.database.train_events("overfit")[:2]
    assert (begins.event, ends.event) == ("overfit_begins", "overfit_ends")
    assert begins.step == ends.step
