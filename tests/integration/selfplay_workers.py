"""Self-play workers for tests, over real stores: at play, told to leave, killed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from tests.support.predictors import HashPredictor
from zerofleet.config import RunConfig, run_from_values
from zerofleet.database import Database, SelfplayDatabase
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.prediction import Predictor
from zerofleet.services.selfplay.settings import SelfplaySettings
from zerofleet.services.selfplay.worker import Worker

DEADLINE = 240.0
at_play: set[asyncio.Task[None]] = set()


def make_run(
    game: str = "connect_four",
    name: str = "played",
    random_opening_plies: int = 0,
    **selfplay: Any,
) -> RunConfig:
    return run_from_values(
        {
            "name": name,
            "preset": "plain",
            "game": {"name": game},
            "search": {"num_simulations": 12, "cache_positions": 0},
            "selfplay": {
                "games_per_engine": 8,
                "random_opening_plies": random_opening_plies,
                **selfplay,
            },
        }
    )


def make_worker(
    run: RunConfig,
    database: SelfplayDatabase,
    valkey_url: str,
    name: str,
    predictor: Predictor | None = None,
    seed: int | None = None,
) -> Worker:
    settings = SelfplaySettings(run_file=Path("run.toml"), worker=name, selfplay_seed=seed)
    return Worker(
        run,
        settings,
        database,
        Heartbeats(valkey_url, run.name),
        predictor or HashPredictor(run.game.name),
    )


@contextlib.asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[asyncio.Event]:
    """A worker at play; leaving the block is its SIGTERM."""
    # As the run's trainer does.
    await asyncio.to_thread(worker._database.register_run, worker._run)
    stop = asyncio.Event()
    task = asyncio.create_task(worker.run(stop))
    at_play.add(task)
    try:
        yield stop
        stop.set()
        await task
    finally:
        at_play.discard(task)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def killed(worker: Worker, when: Callable[[], bool]) -> None:
    """Play until ``when``, then end without a word, as SIGKILL does."""
    task = asyncio.create_task(worker.run(asyncio.Event()))
    at_play.add(task)
    await until(when)
    at_play.discard(task)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], bool], every: float = 0.002) -> None:
    """Wait for a condition while every worker lives."""
    async with asyncio.timeout(DEADLINE):
        while not condition():
            for task in at_play:
                if task.done():
                    task.result()
            await asyncio.sleep(every)


def plies(worker: Worker) -> int:
    return sum(loop.engine.statistics.plies for loop in worker.loops)


def finished(worker: Worker) -> int:
    return sum(loop.engine.statistics.games_finished for loop in worker.loops)


def live_games(worker: Worker) -> dict[str, list[int]]:
    """Return the worker's own games from its memory: uid -> actions."""
    return {
        str(record.game_uid): record.columns.action.tolist()
        for loop in worker.loops
        for game in loop.engine.unfinished()
        if loop.in_play._identities[game.game_id].ours
        for record, _ in [loop.in_play.unfinished(game)]
    }


def spooled_games(worker: Worker) -> dict[str, list[int]]:
    """Finished games that Postgres has not answered for."""
    records = [submission.record for submission in worker.writer._spool]
    return {str(record.game_uid): record.columns.action.tolist() for record in records}


def query(database: Database, statement: str) -> list[Any]:
    return database._rows(statement)


def stored_games(database: Database) -> dict[str, list[int]]:
    rows = query(
        database,
        "SELECT game_uid::text AS uid, array_agg(action ORDER BY ply) AS actions "
        "FROM games JOIN positions USING (game_uid) GROUP BY game_uid",
    )
    return {row.uid: list(row.actions) for row in rows}


def saved_games(database: Database) -> dict[str, list[int]]:
    rows = query(
        database,
        "SELECT game_uid::text AS uid, (record ->> 'action')::smallint[] AS action "
        "FROM unfinished_games",
    )
    return {row.uid: row.action for row in rows}
