"""v_resign reaches the engines, and the worker reports how they used it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import structlog
from zerofleet_core import GameColumns, SearchConfig, SelfPlay

from tests.support.predictors import HashPredictor
from zerofleet.config import ResignSection, RunConfig, run_from_values
from zerofleet.database import ResignThreshold, SelfplayDatabase
from zerofleet.errors import StoreUnavailableError
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.services.selfplay.service import WorkerCollector
from zerofleet.services.selfplay.settings import SelfplaySettings
from zerofleet.services.selfplay.worker import ResignThresholdReader, Worker

GAME = "tic_tac_toe"


class Thresholds:
    """A database that knows v_resign; an exception in its answers means that it is down."""

    def __init__(self, *answers: float | Exception | None) -> None:
        self._answers = list(answers)
        self.calls = 0

    def last_v_resign(self, run: str) -> float | None:
        assert run == "test"
        self.calls += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def make_run(**resign: Any) -> RunConfig:
    return run_from_values(
        {
            "name": "test",
            "preset": "plain",
            "game": GAME,
            "search": {"num_simulations": 4, "cache_positions": 0},
            "resign": resign,
            "selfplay": {"games_per_engine": 16},
        }
    )


def play(engine: SelfPlay, batches: int) -> list[GameColumns]:
    advance(engine, batches)
    return engine.take_finished()


def advance(engine: SelfPlay, batches: int) -> None:
    generator = np.random.default_rng(1)
    for _ in range(batches):
        rows = len(engine.select())
        values = generator.uniform(-0.3, 0.3, rows).astype(np.float32)
        engine.backup(np.zeros((rows, 9), np.float32), values, 1)
    engine.select()


def make_engines(count: int) -> list[SelfPlay]:
    search = SearchConfig(num_simulations=4, cache_positions=0)
    return [SelfPlay(GAME, 16, search, seed) for seed in range(count)]


def make_resignation(
    thresholds: Thresholds, engines: Sequence[SelfPlay], **resign: Any
) -> ResignThresholdReader:
    return ResignThresholdReader(make_run(**resign), cast("ResignThreshold", thresholds), engines)


def test_games_play_on_before_there_is_a_threshold() -> None:
    engines = make_engines(2)
    make_resignation(Thresholds(None), engines, enabled=True, play_on_share=0.5)
    for engine in engines:
        games = play(engine, 300)
        assert {game.resign_threshold for game in games} == {None}
        assert {game.plays_on for game in games} == {True, False}


async def test_games_that_begin_later_know_the_threshold() -> None:
    engines = make_engines(2)
    resignation = make_resignation(Thresholds(-0.875), engines, enabled=True)
    await resignation.read()
    assert resignation.threshold == -0.875
    for engine in engines:
        assert {game.resign_threshold for game in play(engine, 200)} == {-0.875}


async def test_while_postgres_is_away_the_last_threshold_stays() -> None:
    away = StoreUnavailableError("no Postgres")
    thresholds = Thresholds(away, -0.5, away, -0.5, None)
    resignation = make_resignation(thresholds, make_engines(1), enabled=True)
    known: list[float | None] = []
    with structlog.testing.capture_logs() as logs:
        for _ in range(5):
            await resignation.read()
            known.append(resignation.threshold)
    assert known == [None, -0.5, -0.5, -0.5, None]
    assert [(log["before"], log["threshold"]) for log in logs] == [(None, -0.5), (-0.5, None)]


async def test_it_is_read_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ResignSection, "every_seconds", 0.001)
    thresholds = Thresholds(-0.75, -0.5, RuntimeError("unforeseen"))
    resignation = make_resignation(thresholds, make_engines(1), enabled=True)
    with pytest.raises(RuntimeError, match="unforeseen"):
        await resignation.watch()
    assert (thresholds.calls, resignation.threshold) == (3, -0.5)


async def test_a_run_without_resignation_asks_nobody() -> None:
    thresholds, engines = Thresholds(-0.5), make_engines(1)
    resignation = make_resignation(thresholds, engines, enabled=False)
    await resignation.read()
    assert (thresholds.calls, resignation.threshold) == (0, None)
    games = play(engines[0], 300)
    assert {(game.resign_threshold, game.plays_on) for game in games} == {(None, False)}


async def test_figures_tell_the_threshold_and_the_games() -> None:
    stores = cast("Any", Thresholds(0.5))
    worker = Worker(
        make_run(enabled=True, play_on_share=0.2),
        SelfplaySettings(run_file=Path("run.toml"), worker="one", selfplay_seed=1),
        cast("SelfplayDatabase", stores),
        cast("Heartbeats", stores),
        HashPredictor(GAME),
    )
    assert samples(worker) == {"zerofleet_selfplay_resigned_games_total": 0}
    await worker.resignation.read()
    for loop in worker.loops:
        advance(loop.engine, 300)
        loop.collect()
    resigned = sum(each.record.reason == "resign" for each in worker.writer._spool)
    assert 10 < resigned < len(worker.writer._spool)
    assert worker.totals().resigned_games == resigned
    assert samples(worker) == {
        "zerofleet_selfplay_resigned_games_total": resigned,
        "zerofleet_selfplay_resign_threshold": 0.5,
    }


def samples(worker: Worker) -> dict[str, float]:
    return {
        sample.name: sample.value
        for metric in WorkerCollector(worker).collect()
        for sample in metric.samples
        if "resign" in sample.name
    }


@pytest.fixture(autouse=True)
def _plain_logs() -> None:
    structlog.reset_defaults()
