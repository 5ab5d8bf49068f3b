"""Restarts from games in Postgres, by the trainer's window, to a worker that begins there."""

from pathlib import Path

import numpy as np
import pytest
import structlog
from zerofleet_core import SearchConfig, SelfPlay

from tests.support.playing_workers import at_play
from tests.support.predictors import HashPredictor
from zerofleet.config import RunConfig, run_from_values
from zerofleet.database import Database, RestartList
from zerofleet.errors import StaleEpochError
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.games import spec
from zerofleet.learning.learner import Learner
from zerofleet.learning.overfit import OverfitWatch
from zerofleet.learning.restarts import MOST_RESTARTS, regrets_of
from zerofleet.learning.window import TrainBucket, Training, Window
from zerofleet.services.selfplay.settings import SelfplaySettings
from zerofleet.services.selfplay.worker import RestartReader, Worker
from zerofleet.services.trainer.trainer import RestartWriter

pytestmark = pytest.mark.slow
GAMES = 200


def a_run(share: float) -> RunConfig:
    return run_from_values({
        "name": "test",
        "preset": "plain",
        "game": "tic_tac_toe",
        "network": {"blocks": 0, "channels": 2},
        "search": {"num_simulations": 8, "cache_positions": 0},
        "selfplay": {"games_per_engine": 8, "save_every_plies": 2, "restart_share": share},
        "trainer": {"held_out_share": 0.2},
    })  # fmt: skip


def a_worker(run: RunConfig, name: str, database: Database, heartbeats: Heartbeats) -> Worker:
    settings = SelfplaySettings(run_file=Path("run.toml"), worker=name, selfplay_seed=1)
    return Worker(run, settings, database, heartbeats, HashPredictor("tic_tac_toe"))


def read_window(run: RunConfig, database: Database) -> Window:
    bucket = TrainBucket(run.trainer.samples_per_position)
    training = Training(Learner(spec("tic_tac_toe"), run), bucket, OverfitWatch(run.overfit))
    window = Window(run, database, training)
    while window.read_page():
        pass
    return window


def assert_view_agrees(database: Database) -> None:
    """Compare ``largest_mistakes`` with the formula in Python."""
    rows = database._rows(
        "SELECT g.game_uid, g.result, array_agg(p.to_play ORDER BY ply) AS to_play, "
        "array_agg(p.root_value ORDER BY ply) AS root_value, "
        "array_agg(p.full_search ORDER BY ply) AS full_search "
        "FROM games AS g JOIN positions AS p USING (game_uid) GROUP BY g.game_uid"
    )
    regrets = {
        row.game_uid: regrets_of(
            np.array(row.to_play),
            np.array(row.root_value, np.float32),
            np.array(row.full_search),
            row.result,
        )
        for row in rows
        if any(row.full_search)
    }
    seen = database._rows("SELECT * FROM largest_mistakes WHERE run = 'test'")
    assert {row.game_uid for row in seen} == set(regrets)
    for row in seen:
        assert float(row.regret) == pytest.approx(np.nanmax(regrets[row.game_uid]), abs=0.001)
        assert regrets[row.game_uid][row.ply] == pytest.approx(float(row.regret), abs=0.001)


async def test_games_begin_where_the_player_was_most_wrong(
    database: Database, valkey_url: str
) -> None:
    run, heartbeats = a_run(1.0), Heartbeats(valkey_url, "test")
    database.register_run(run)
    worker = a_worker(run, "before", database, heartbeats)
    async with at_play(worker) as until:
        await until(lambda: worker.writer.answers["stored"] >= GAMES)
    window = read_window(run, database)
    assert window.restarts is not None
    found = window.restarts.restarts()
    assert 0 < len(found) <= MOST_RESTARTS
    assert read_window(run, database).restarts.restarts() == found  # a restarted trainer's too
    epoch = database.acquire_fence("test", "trainer")
    writer = RestartWriter("test", window, database, epoch)
    assert writer.due()
    writer.write()
    assert not writer.due()
    restarts = [list(each.actions) for each in found]
    assert database.restarts("test") == restarts
    listed = database.restart_list("test")
    assert listed.positions == len(found)
    assert listed.regret == pytest.approx(np.mean([each.regret for each in found]))
    assert listed.age_s is not None
    assert listed.age_s >= 0
    assert_view_agrees(database)
    [before] = database._rows(
        "SELECT count(*) AS games, count(*) FILTER (WHERE restarted) AS restarted FROM games"
    )
    assert before.restarted == 0

    worker = a_worker(run, "after", database, heartbeats)
    async with at_play(worker) as until:
        await until(lambda: worker.writer.answers["stored"] >= GAMES)
    new = database._rows(
        "SELECT g.restarted, array_agg(p.action ORDER BY p.ply) AS actions, "
        "array_agg(p.simulations ORDER BY p.ply) AS simulations "
        "FROM games AS g JOIN positions AS p USING (game_uid) "
        "WHERE g.worker = 'after' GROUP BY g.game_uid, g.restarted"
    )
    assert len(new) >= GAMES
    begun = 0
    for row in new:
        drawn = next((i for i, each in enumerate(row.simulations) if each), len(row.actions))
        begun += row.restarted
        assert not row.restarted or row.actions[:drawn] in restarts
    # Games that the worker before had left unfinished began elsewhere.
    assert begun >= len(new) - 2 * run.selfplay.games_per_engine
    whole = read_window(run, database)
    assert whole.rejected == 0
    assert whole.trained.games + whole.held_out.games == before.games + len(new)

    database.acquire_fence("test", "trainer")
    with pytest.raises(StaleEpochError):
        writer.write()


async def test_a_run_without_restarts_reads_and_writes_none(
    database: Database, valkey_url: str
) -> None:
    run = a_run(0.0)
    database.register_run(run)
    worker = a_worker(run, "one", database, Heartbeats(valkey_url, "test"))
    async with at_play(worker) as until:
        await until(lambda: worker.writer.answers["stored"] >= 20)
    window = read_window(run, database)
    epoch = database.acquire_fence("test", "trainer")
    assert window.restarts is None
    assert not RestartWriter("test", window, database, epoch).due()
    assert database.restarts("test") == []
    assert database.restart_list("test") == RestartList()


async def test_restarts_of_other_rules_are_passed_over(database: Database, valkey_url: str) -> None:
    run = a_run(0.5)
    database.register_run(run)
    epoch = database.acquire_fence("test", "trainer")
    database.store_restarts("test", [([0, 0], 1.0)], epoch)
    worker = a_worker(run, "one", database, Heartbeats(valkey_url, "test"))
    async with at_play(worker) as until:
        await until(lambda: worker.writer.answers["stored"] >= 20)


@pytest.mark.parametrize(
    "positions",
    [
        '[{"regret": 1}]',
        '[{"actions": [4]}, 7]',
        '[{"actions": ["4"]}]',
        '[{"actions": [1e20]}]',
        '{"actions": [4]}',
        '[{"actions": [0, 0]}]',
    ],
)
async def test_a_damaged_row_is_passed_over(database: Database, positions: str) -> None:
    run = a_run(1.0)
    database.register_run(run)
    epoch = database.acquire_fence("test", "trainer")
    database.store_restarts("test", [([4], 1.0)], epoch)
    engines = [SelfPlay("tic_tac_toe", 1, SearchConfig(num_simulations=2), 1)]
    reader = RestartReader(run, database, engines)
    with structlog.testing.capture_logs() as logs:
        await reader.read()
        database._rows(
            "UPDATE restarts SET positions = CAST(:positions AS jsonb) RETURNING run",
            positions=positions,
        )
        await reader.read()
    assert [each["event"] for each in logs] == ["game_restarts", "game_restarts_refused"]
    engines[0].select()
    engines[0].backup(np.zeros((1, 9), np.float32), np.zeros(1, np.float32), 1)
    [game] = engines[0].unfinished()
    assert game.action.tolist() == [4]
    assert database.restart_list("test").positions == ("regret" in positions)
