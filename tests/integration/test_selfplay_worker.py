"""A self-play worker over real stores: every finished game is stored, once."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from tests.integration.selfplay_workers import (
    DEADLINE,
    finished,
    live_games,
    make_run,
    make_worker,
    plies,
    query,
    running,
    saved_games,
    stored_games,
    until,
)
from tests.support.forwarding import forwarding
from tests.support.predictors import UniformPredictor
from zerofleet.config import RunConfig, SelfplaySection
from zerofleet.database import Database, Submission, migrate
from zerofleet.errors import InferenceUnavailableError, OverloadedError
from zerofleet.fleet.figures import SelfplayFigures, TrainerFigures
from zerofleet.fleet.heartbeat import Heartbeat, Heartbeats
from zerofleet.local.postgres import EmbeddedPostgres
from zerofleet.prediction import Prediction, Predictor


async def test_every_finished_game_is_stored_once(database: Database, valkey_url: str) -> None:
    worker = make_worker(make_run(), database, valkey_url, "one")
    async with running(worker):
        await until(lambda: worker.writer.answers["stored"] >= 60)
    assert worker.writer.answers == {"stored": finished(worker)}
    assert len(stored_games(database)) == finished(worker)
    assert worker.writer.spooled == 0


async def test_games_with_drawn_openings_are_stored(database: Database, valkey_url: str) -> None:
    worker = make_worker(make_run(random_opening_plies=3), database, valkey_url, "one")
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
    assert one == same
    assert one != other


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

    heartbeats = Heartbeats(valkey_url, make_run().name)
    worker = make_worker(make_run(), database, valkey_url, "busy")
    waiting = make_worker(make_run(), database, valkey_url, "waiting", Absent())
    async with running(worker), running(waiting):
        beats: dict[str, Heartbeat] = {}

        def both_heard() -> bool:
            beats.clear()
            beats.update((beat.worker, beat) for beat in heartbeats.read())
            return (
                beats.keys() == {"busy", "waiting"}
                and beats["busy"].progress > 0
                and beats["busy"].waiting_for == ""
                and "inference" in beats["waiting"].waiting_for
            )

        await until(both_heard, every=0.05)
    assert heartbeats.read() == []  # both have shut down
    assert beats["waiting"].progress == 0
    figures = beats["busy"].figures
    assert isinstance(figures, SelfplayFigures)
    assert figures.simulations_per_second >= 0


async def test_play_pauses_while_the_trainer_is_behind(database: Database, valkey_url: str) -> None:
    heartbeats = Heartbeats(valkey_url, make_run().name)
    heartbeats.beat(Heartbeat("t", 1, "", TrainerFigures(unspent_positions=5e6)), ttl=600)
    worker = make_worker(make_run(max_ahead_positions=1_000_000), database, valkey_url, "ahead")
    async with running(worker):
        await until(lambda: "trainer" in str(worker.waits))
        stands = -1
        async with asyncio.timeout(DEADLINE):  # batches that were away come in
            while plies(worker) != stands:
                stands = plies(worker)
                await asyncio.sleep(0.2)
        heartbeats.beat(Heartbeat("t", 2, "", TrainerFigures(unspent_positions=10.0)), ttl=600)
        # Plies alone say nothing: on a slow machine a batch that was away may come in as late.
        await until(lambda: plies(worker) > stands and not worker.waits)


async def test_play_pauses_while_a_trainer_that_sends_heartbeats_reads_no_games(
    database: Database, valkey_url: str
) -> None:
    run = make_run(max_ahead_positions=5_000)
    heartbeats = Heartbeats(valkey_url, run.name)
    heartbeats.beat(Heartbeat("t", 1, "", TrainerFigures(unspent_positions=0.0)), ttl=600)
    database.register_run(run)
    epoch = database.acquire_fence(run.name, "trainer")
    database.record_progress(run.name, 0.0, 0, epoch)
    worker = make_worker(run, database, valkey_url, "unread")
    async with running(worker):
        await until(lambda: "the trainer, 5000 positions behind" in str(worker.waits))
        [(tx,)] = query(database, "SELECT max(tx)::text FROM games")
        heartbeats.beat(Heartbeat("t", 2, "", TrainerFigures(unspent_positions=0.0)), ttl=600)
        stands = plies(worker)
        database.record_progress(run.name, 0.0, int(tx), epoch)
        await until(lambda: plies(worker) > stands + 1000)


async def test_no_finished_game_is_lost_while_postgres_is_away(
    store_folder: Path, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SelfplaySection, "spool_games", 40)
    with EmbeddedPostgres(store_folder / "unsteady") as server:
        migrate(server.url())
        run = make_run(engines=1)
        async with forwarding(lambda: server.port) as port:
            steady_url = server.url().replace(f":{server.port}/", f":{port}/")
            with Database(steady_url) as database:
                worker = make_worker(run, database, valkey_url, "steady")
                async with running(worker):
                    await until(lambda: worker.writer.answers["stored"] >= 20)
                    server.stop()
                    await until(
                        lambda: worker.writer.spooled >= 40 and "Postgres" in str(worker.waits)
                    )
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
