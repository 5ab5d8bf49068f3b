"""A worker whose players resign: its games are stored as such, and replay."""

from pathlib import Path

import pytest
from zerofleet_core import ReplayBuffer

from tests.support.playing_workers import at_play
from tests.support.predictors import HashPredictor
from zerofleet.config import ResignSection, run_from_values
from zerofleet.database import Database, add_to_buffer
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.services.selfplay.settings import SelfplaySettings
from zerofleet.services.selfplay.worker import Worker


async def test_resigned_games_are_stored_and_replay(
    database: Database, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ResignSection, "every_seconds", 0.05)
    resign = {"enabled": True, "play_on_share": 0.3}
    run = run_from_values(
        {
            "name": "test",
            "preset": "plain",
            "game": "tic_tac_toe",
            "resign": resign,
            "search": {"num_simulations": 12, "cache_positions": 0},
            "selfplay": {"games_per_engine": 8, "save_every_plies": 2},
        }
    )
    settings = SelfplaySettings(run_file=Path("run.toml"), worker="one", selfplay_seed=1)
    heartbeats = Heartbeats(valkey_url, "test")
    database.register_run(run)
    worker = Worker(run, settings, database, heartbeats, HashPredictor("tic_tac_toe"))
    async with at_play(worker) as until:
        await until(lambda: worker.writer.answers["stored"] >= 100)
        assert worker.totals().resigned_games == 0
        # As the trainer would, had it found one.
        database._run(
            "INSERT INTO resign_thresholds (run, threshold, games, would_resign, wrong, "
            "false_positive_share, min_games, window_games, highest) "
            "VALUES ('test', 0.25, 100, 50, 1, 0.05, 1, 100, -0.1)"
        )
        await until(lambda: worker.totals().resigned_games >= 60)

        def is_told() -> bool:
            told = [beat.figures for beat in heartbeats.read()]
            return any(each.resigned_games and each.resign_threshold == 0.25 for each in told)

        await until(is_told)
    finished = sum(loop.engine.statistics.games_finished for loop in worker.loops)
    assert worker.writer.answers == {"stored": finished}

    [counted] = database._rows(
        "SELECT count(*) FILTER (WHERE reason = 'resign') AS resigned, "
        "count(*) FILTER (WHERE plays_on AND resign_threshold IS NULL) AS played_on_before, "
        "count(*) FILTER (WHERE plays_on AND resign_threshold IS NOT NULL) AS played_on FROM games",
    )
    assert counted.resigned == worker.totals().resigned_games
    assert counted.played_on_before > 0
    assert counted.played_on > 0
    games = database.read_games("test", 0, 10_000).games
    buffer = ReplayBuffer("tic_tac_toe", 100_000, 10_000)
    for game in games:
        add_to_buffer(buffer, game)
    assert buffer.games == finished
    assert sum(game.reason == "resign" for game in games) == counted.resigned
