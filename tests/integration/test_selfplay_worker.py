"""A self-play worker over real stores: every finished game once, no ply lost that need not be."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.selfplay.settings import SelfplaySettings
from services.selfplay.worker import Worker
from zerofleet.config import RunConfig, run_from_values
from zerofleet.database import Database, Submission, migrate
from zerofleet.errors import InferenceUnavailableError, OverloadedError
from zerofleet.figures import SelfplayFigures, TrainerFigures
from zerofleet.heartbeat import Heartbeat, Heartbeats
from zerofleet.local.postgres import EmbeddedPostgres
from zerofleet.prediction import Prediction, Predictor
from zerofleet.testing import HashPredictor, UniformPredictor
from zerofleet.testing.forwarding import forwarding
from zerofleet.testing.records import changed, random_record

DEADLINE = 120.0
at_play: set[asyncio.Task[None]] = set()


def make_run(
    game: str = "connect_four", name: str = "test", random_plies: int = 0, **selfplay: Any
) -> RunConfig:
    opening = {"random_opening_plies": random_plies}
    return run_from_values(
        {
            "name": name,
            "preset": "plain",
            "game": {"name": game},
            "search": {"num_simulations": 12, "cache_positions": 0, **opening},
            "selfplay": {"games_per_engine": 8, **selfplay},
        }
    )


def make_worker(
    run: RunConfig,
    database: Database,
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
    return sum(lane.engine.statistics.plies for lane in worker.lanes)


def finished(worker: Worker) -> int:
    return sum(lane.engine.statistics.games_finished for lane in worker.lanes)


def live_games(worker: Worker) -> dict[str, list[int]]:
    """What the worker's memory holds: uid -> actions."""
    return {
        str(record.game_uid): record.columns.action.tolist()
        for lane in worker.lanes
        for record, _ in map(lane.ledger.unfinished, lane.engine.unfinished())
    }


def spooled_games(worker: Worker) -> dict[str, list[int]]:
    """Finished games that Postgres has not answered for."""
    return {str(s.record.game_uid): s.record.columns.action.tolist() for s in worker.writer._spool}


def query(database: Database, statement: str) -> list[Any]:
    return database._rows(statement)


def stored_games(database: Database) -> dict[str, list[int]]:
    actions = "SELECT game_uid::text AS uid, array_agg(action ORDER BY ply) AS actions"
    rows = query(
        database, f"{actions} FROM games JOIN positions USING (game_uid) GROUP BY game_uid"
    )
    return {row.uid: list(row.actions) for row in rows}


def saved_games(database: Database) -> dict[str, list[int]]:
    rows = query(database, "SELECT game_uid::text AS uid, record FROM unfinished_games")
    return {row.uid: row.record["action"] for row in rows}


@pytest.fixture
def database(database_url: str) -> Any:
    with Database(database_url) as database:
        yield database


async def test_every_finished_game_is_stored_once(database: Database, valkey_url: str) -> None:
    worker = make_worker(make_run(), database, valkey_url, "one")
    async with running(worker):
        await until(lambda: worker.writer.answers["stored"] >= 60)
    assert worker.writer.answers == {"stored": finished(worker)}
    assert len(stored_games(database)) == finished(worker)
    assert worker.writer.spooled == 0


async def test_games_with_drawn_openings_are_stored(database: Database, valkey_url: str) -> None:
    worker = make_worker(make_run(random_plies=3), database, valkey_url, "one")
    async with running(worker):
        await until(lambda: worker.writer.answers["stored"] >= 60)
    assert worker.writer.answers == {"stored": finished(worker)}
    drawn = "simulations = 0 AND NOT full_search AND legal_actions = ARRAY[action] AND ply < 3"
    searched = "simulations > 0 AND full_search"
    [(openings, others, wrong)] = query(
        database,
        f"SELECT count(*) FILTER (WHERE {drawn}), count(*) FILTER (WHERE {searched}), "
        f"count(*) FILTER (WHERE NOT ({drawn}) AND NOT ({searched})) FROM positions",
    )
    assert (openings > 30, others > 600, wrong) == (True, True, 0)


async def test_sigterm_loses_no_ply_and_another_worker_goes_on(
    database: Database, valkey_url: str
) -> None:
    first = make_worker(make_run(), database, valkey_url, "first")
    async with running(first):
        await until(lambda: plies(first) > 400)
    left = live_games(first)
    assert left
    assert saved_games(database) == left

    second = make_worker(make_run(), database, valkey_url, "second")
    async with running(second):
        await until(lambda: left.keys() <= stored_games(database).keys(), every=0.05)
    games = stored_games(database)
    for uid, actions in left.items():
        assert games[uid][: len(actions)] == actions
    assert not left.keys() & saved_games(database).keys()
    assert len(games) == finished(first) + finished(second)


@pytest.mark.parametrize("save_every", [8, 16])
async def test_a_kill_loses_fewer_plies_of_a_game_than_the_setting(
    database: Database, valkey_url: str, save_every: int
) -> None:
    run = make_run(save_every_plies=save_every, lease_seconds=0.5)
    rng = np.random.default_rng(save_every)
    most_lost = 0
    for life in range(5):
        worker = make_worker(run, database, valkey_url, f"life {life}", seed=life)
        until_ply = int(rng.integers(200, 600))
        await killed(worker, lambda worker=worker, end=until_ply: plies(worker) > end)
        saved = saved_games(database)
        for uid, actions in live_games(worker).items():
            assert actions[: len(saved.get(uid, []))] == saved.get(uid, [])
            most_lost = max(most_lost, len(actions) - len(saved.get(uid, [])))
    assert 0 < most_lost < save_every

    heir = make_worker(run, database, valkey_url, "heir")
    orphans = saved_games(database)
    async with running(heir):
        await until(lambda: orphans.keys() <= stored_games(database).keys(), every=0.05)
    ends = stored_games(database)
    assert all(ends[uid][: len(actions)] == actions for uid, actions in orphans.items())


async def test_a_worker_that_was_thought_dead_gives_its_games_up(
    database: Database, valkey_url: str
) -> None:
    """Its leases ran out while it was stopped; the games are the heir's, whatever it still does."""
    run = make_run(save_every_plies=2)
    zombie = make_worker(run, database, valkey_url, "zombie")
    async with running(zombie):
        await until(lambda: len(saved_games(database)) >= 8)
        database._run("UPDATE unfinished_games SET lease_until = now() - interval '1 second'")
        adopted = database.adopt_unfinished(run.name, "heir", 100, 1000.0)
        assert adopted
        await until(lambda: plies(zombie) > 2000)
    uids = {str(record.game_uid) for record, _ in adopted}
    kept = saved_games(database)
    assert uids <= kept.keys()
    for record, _ in adopted:
        assert kept[str(record.game_uid)] == record.columns.action.tolist()
    assert not uids & stored_games(database).keys()
    assert len(stored_games(database)) == zombie.writer.answers["stored"]


async def test_a_worker_plays_on_whatever_lies_among_the_unfinished_games(
    database: Database, valkey_url: str
) -> None:
    """What cannot be read or does not replay is put aside with a row, and adopted by none again."""
    run = make_run("tic_tac_toe")
    database.register_run(run)
    begun = random_record(5, plies=4)
    illegal = changed(random_record(6, plies=4), action=np.int16([4, 4, 0, 1]))
    saved = database.save_unfinished(run.name, "gone", [(begun, 0), (illegal, 3)], 0)
    assert saved == ["saved", "saved"]
    nothing = "00000000-0000-7000-8000-000000000000"
    database._run(
        "INSERT INTO unfinished_games (game_uid, run, epoch, ply, record, worker, lease_until) "
        f"VALUES ('{nothing}', 'test', 0, 3, '{{}}', 'gone', now())"
    )
    worker = make_worker(run, database, valkey_url, "heir")
    async with running(worker):
        await until(lambda: str(begun.game_uid) in stored_games(database))
        await until(lambda: worker.writer.answers["stored"] > 20)
    aside = query(database, "SELECT game_uid::text AS uid, reason, worker FROM games_conflict")
    assert {row.worker for row in aside} == {"heir"}
    reasons = {row.uid: row.reason for row in aside}
    assert reasons.keys() == {str(illegal.game_uid), nothing}
    assert "action 4 at ply 1 is illegal" in reasons[str(illegal.game_uid)]
    assert "this is no record of a game" in reasons[nothing]
    assert not {str(illegal.game_uid), nothing} & saved_games(database).keys()


async def play_games(
    database: Database,
    valkey_url: str,
    run: RunConfig,
    count: int,
    *,
    seed: int,
    predictor: Predictor | None = None,
) -> list[list[int]]:
    """The first games of a worker, in the order they finished."""
    worker = make_worker(run, database, valkey_url, "worker", predictor, seed)
    games: list[list[int]] = []
    put = worker.writer.put

    def note(submission: Submission) -> None:
        games.append(submission.record.columns.action.tolist())
        put(submission)

    worker.writer.put = note  # type: ignore[method-assign]
    async with running(worker):
        await until(lambda: len(games) >= count)
    return games[:count]


async def test_the_seed_decides_the_games(database: Database, valkey_url: str) -> None:
    """Each in a run of its own, so that none adopts what another left."""
    one, same, other = [
        await play_games(database, valkey_url, make_run(name=name, engines=1), 30, seed=seed)
        for name, seed in (("one", 7), ("same", 7), ("other", 8))
    ]
    assert one == same != other


class Moody:
    """Refuses every third batch, one way or the other."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self.refusals = 0
        self._calls = 0

    async def predict(self, observations: np.ndarray) -> Prediction:
        self._calls += 1
        if self._calls % 3 == 0:
            self.refusals += 1
            raise (OverloadedError if self.refusals % 2 else InferenceUnavailableError)("not now")
        return await self._predictor.predict(observations)


async def test_a_service_that_refuses_changes_no_game(database: Database, valkey_url: str) -> None:
    moody = Moody(UniformPredictor("tic_tac_toe"))
    calm = UniformPredictor("tic_tac_toe")
    with_moods, without = [
        await play_games(
            database,
            valkey_url,
            make_run("tic_tac_toe", name, engines=1),
            10,
            seed=3,
            predictor=predictor,
        )
        for name, predictor in (("moody", moody), ("calm", calm))
    ]
    assert moody.refusals > 10
    assert with_moods == without


async def test_heartbeats_carry_progress_and_what_is_waited_for(
    database: Database, valkey_url: str
) -> None:
    class Absent:
        async def predict(self, observations: np.ndarray) -> Prediction:
            raise InferenceUnavailableError("nobody there")

    heartbeats = Heartbeats(valkey_url, "test")
    worker = make_worker(make_run(), database, valkey_url, "busy")
    waiting = make_worker(make_run(), database, valkey_url, "waiting", Absent())
    async with running(worker), running(waiting):

        def both_heard() -> bool:
            beats = {beat.worker: beat for beat in heartbeats.read()}
            return (
                beats.keys() == {"busy", "waiting"}
                and beats["busy"].progress > 0
                and "inference" in beats["waiting"].waiting_for
            )

        await until(both_heard, every=0.05)
    beats = {beat.worker: beat for beat in heartbeats.read()}
    assert beats["waiting"].progress == 0
    assert beats["busy"].waiting_for == ""
    figures = beats["busy"].figures
    assert isinstance(figures, SelfplayFigures)
    assert figures.simulations_per_s >= 0


async def test_play_pauses_while_the_trainer_is_behind(database: Database, valkey_url: str) -> None:
    heartbeats = Heartbeats(valkey_url, "test")
    heartbeats.beat(Heartbeat("t", 1, "", TrainerFigures(unspent_positions=5e6)), ttl=60)
    worker = make_worker(make_run(max_ahead_positions=1_000_000), database, valkey_url, "ahead")
    async with running(worker):
        await until(lambda: "trainer" in str(worker.waits))
        stands = -1
        async with asyncio.timeout(DEADLINE):  # batches that were away come in
            while plies(worker) != stands:
                stands = plies(worker)
                await asyncio.sleep(0.2)
        heartbeats.beat(Heartbeat("t", 2, "", TrainerFigures(unspent_positions=10.0)), ttl=60)
        await until(lambda: plies(worker) > stands)
        assert not worker.waits


async def test_no_finished_game_is_lost_while_postgres_is_away(
    store_folder: Path, valkey_url: str
) -> None:
    with EmbeddedPostgres(store_folder / "unsteady") as server:
        migrate(server.url())
        run = make_run(spool_games=40, engines=1)
        async with forwarding(lambda: server.port) as port:
            steady_url = server.url().replace(f":{server.port}/", f":{port}/")
            with Database(steady_url) as database:
                worker = make_worker(run, database, valkey_url, "steady")
                async with running(worker):
                    await until(lambda: worker.writer.answers["stored"] >= 20)
                    server.stop()
                    await until(lambda: worker.writer.spooled >= 40)
                    assert "Postgres" in str(worker.waits)
                    stands = plies(worker)
                    server.start()  # here, because the server lives as long as this thread
                    assert worker.writer.spooled < 40 + 3 * 8
                    more = worker.writer.answers["stored"] + worker.writer.spooled + 20
                    await until(lambda: worker.writer.answers["stored"] >= more)
                    assert plies(worker) > stands
        answers = worker.writer.answers
        assert answers["stored"] + answers["duplicate"] == finished(worker)
        assert answers["conflict"] == answers["rejected"] == 0
        with Database(server.url()) as database:
            assert len(stored_games(database)) == finished(worker)
            assert live_games(worker).items() <= saved_games(database).items()
