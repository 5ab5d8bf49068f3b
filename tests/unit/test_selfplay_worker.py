"""A worker's decisions about leases, pauses and its end, with stores that do as they are told."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import numpy as np
import pytest
import structlog

from tests.support.predictors import HashPredictor
from zerofleet.config import run_from_values
from zerofleet.database import SaveStatus, SelfplayDatabase, Submission, SubmitStatus
from zerofleet.database.finished_games import PositionsAhead
from zerofleet.errors import ConfigError, StoreUnavailableError
from zerofleet.fleet.figures import TrainerFigures
from zerofleet.fleet.heartbeat import Heartbeat, Heartbeats
from zerofleet.prediction import Prediction
from zerofleet.records import GameRecord
from zerofleet.redis_connection import UP
from zerofleet.services.selfplay.settings import SelfplaySettings
from zerofleet.services.selfplay.worker import Worker


class Stores:
    """Postgres and Redis in one."""

    def __init__(self) -> None:
        self.away_at_first = 0
        self.redis_away = False
        self.state = UP
        self.ahead = PositionsAhead(0.0, 0.0, 0.0)
        self.behind = 0.0
        self.progress = 0
        self.log: list[str] = []
        self.stored: set[UUID] = set()
        self.saved: set[UUID] = set()
        self.extended: list[set[UUID]] = []

    def remove(self, service: str, worker: str) -> None:
        pass

    def wait_ready(self, timeout: float) -> None:
        self.away_at_first -= 1
        if self.away_at_first >= 0:
            raise StoreUnavailableError("no Postgres")

    def require_run(self, run: object) -> None:
        pass

    def positions_ahead(self, run: str, trained_share: float, enough: float) -> PositionsAhead:
        return self.ahead

    def clock_ahead(self) -> timedelta:
        return timedelta(days=3)

    def submit_games(
        self, run: str, worker: str, submissions: Sequence[Submission]
    ) -> list[SubmitStatus]:
        self.log.append("submit")
        self.stored |= {submission.record.game_uid for submission in submissions}
        return ["stored"] * len(submissions)

    def save_unfinished(
        self, run: str, worker: str, records: list[tuple[GameRecord, int]], lease: float
    ) -> list[SaveStatus]:
        self.log.append("save")
        self.saved |= {record.game_uid for record, _ in records}
        return ["saved"] * len(records)

    def adopt_unfinished(self, run: str, worker: str, limit: int, lease: float) -> list[Any]:
        self.log.append("adopt")
        return []

    def extend_leases(self, run: str, worker: str, uids: list[UUID], lease: float) -> int:
        self.extended.append(set(uids))
        return len(uids)

    def release_unfinished(self, run: str, worker: str) -> int:
        self.log.append("release")
        return 0

    def beat(self, beat: Heartbeat) -> None:
        self.progress = beat.progress

    def read_trainer(self) -> TrainerFigures:
        if self.redis_away:
            raise StoreUnavailableError("no Redis")
        return TrainerFigures(unspent_positions=self.behind)


class Slow:
    """So slow that a ply takes longer than a lease lasts."""

    async def predict(self, observations: np.ndarray) -> Prediction:
        await asyncio.sleep(0.02)
        return await HashPredictor("connect_four").predict(observations)


def make_worker(
    stores: Stores,
    simulations: int = 8,
    slow: bool = False,
    search: dict[str, Any] | None = None,
    **play: Any,
) -> Worker:
    values = {
        "name": "test",
        "preset": "plain",
        "game": {"name": "connect_four"},
        "search": {"num_simulations": simulations, "cache_positions": 0, **(search or {})},
        "selfplay": {"games_per_engine": 4, "engines": 1, **play},
    }
    return Worker(
        run_from_values(values),
        SelfplaySettings(run_file=Path("run.toml"), worker="one", selfplay_seed=1),
        cast("SelfplayDatabase", stores),
        cast("Heartbeats", stores),
        Slow() if slow else HashPredictor("connect_four"),
    )


@contextlib.asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(worker.run(stop))
    try:
        yield
        stop.set()
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(120):
        while True:
            if condition():
                return
            await asyncio.sleep(0.002)


@pytest.fixture
def stores() -> Stores:
    return Stores()


async def test_one_slow_ply_is_progress(stores: Stores) -> None:
    worker = make_worker(stores, simulations=10_000, slow=True, lease_seconds=0.3)
    async with running(worker):
        await until(lambda: len(stores.extended) >= 4 and stores.progress > 0)
        assert worker.totals().plies == 0


async def test_leases_are_extended_of_games_that_are_here_and_ours(stores: Stores) -> None:
    worker = make_worker(stores, simulations=10_000, slow=True, lease_seconds=0.3)
    [loop] = worker.loops
    async with running(worker):
        await until(lambda: loop.in_play.held)
        loop.in_play.disown(0, 0)
        ours = set(loop.in_play.held)
        assert len(ours) == 3
        await until(lambda: ours in stores.extended)


@pytest.mark.parametrize("failures", [0, 1, 2])
async def test_who_starts_in_an_outage_adopts_nothing_at_first(
    stores: Stores, failures: int
) -> None:
    """The leases of live workers have run out too; they extend them first."""
    stores.away_at_first = failures
    worker = make_worker(stores)
    async with running(worker):
        await until(lambda: worker.totals().plies > 0)
        assert ("adopt" in stores.log) == (failures == 0)


async def test_a_pause_ends_when_redis_goes_away_and_postgres_knows_of_no_delay(
    stores: Stores,
) -> None:
    stores.behind = 5e6
    worker = make_worker(stores, max_ahead_positions=1_000_000)
    async with running(worker):
        await until(lambda: "trainer" in str(worker.waits))
        stands = worker.totals().plies
        stores.redis_away = True
        await until(lambda: worker.totals().plies > stands + 50)


async def test_no_game_is_submitted_while_a_save_of_it_is_under_way(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Committed last, the save would leave an unfinished game that is finished."""
    submit, save = stores.submit_games, stores.save_unfinished
    submitting, saves = threading.Event(), [set[UUID]()]
    together: list[set[UUID]] = []

    def slow_save(
        run: str, worker: str, records: list[tuple[GameRecord, int]], lease: float
    ) -> Any:
        saves[0] = {record.game_uid for record, _ in records}
        submitting.clear()
        submitting.wait(0.3)
        saves[0] = set()
        return save(run, worker, records, lease)

    def watched(run: str, worker: str, submissions: Sequence[Submission]) -> Any:
        together.append(saves[0] & {submission.record.game_uid for submission in submissions})
        submitting.set()
        return submit(run, worker, submissions)

    monkeypatch.setattr(stores, "save_unfinished", slow_save)
    monkeypatch.setattr(stores, "submit_games", watched)
    worker = make_worker(stores, save_every_plies=8)
    async with running(worker):
        await until(lambda: len(together) >= 4)
    assert not set().union(*together)


@pytest.mark.parametrize("save_every", [4, 8])
async def test_a_game_whose_plies_all_come_from_the_cache_is_saved_in_time(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, save_every: int
) -> None:
    """It could be over before anybody looks at it, and a SIGKILL then takes the whole game."""
    save, submit = stores.save_unfinished, stores.submit_games
    saved: dict[UUID, int] = {}
    unsaved: list[int] = []

    def noted(run: str, worker: str, records: list[tuple[GameRecord, int]], lease: float) -> Any:
        statuses = save(run, worker, records, lease)
        saved.update({record.game_uid: record.length for record, _ in records})
        return statuses

    def watched(run: str, worker: str, submissions: Sequence[Submission]) -> Any:
        records = [submission.record for submission in submissions]
        unsaved.extend(record.length - saved.get(record.game_uid, 0) for record in records)
        return submit(run, worker, submissions)

    monkeypatch.setattr(stores, "save_unfinished", noted)
    monkeypatch.setattr(stores, "submit_games", watched)
    alike = {"cache_positions": 100_000, "random_symmetry": False}
    play = {"dirichlet_fraction": 0.0, "save_every_plies": save_every}
    worker = make_worker(stores, 16, search=alike, **play)
    async with running(worker):
        await until(lambda: len(unsaved) > 300)
    assert max(unsaved) < save_every


async def test_leases_end_after_everything_is_stored_and_saved(stores: Stores) -> None:
    worker = make_worker(stores)
    async with running(worker):
        await until(lambda: worker.writer.spooled)
        [uid, *_] = worker.writer.held
        began_at = datetime.fromtimestamp((uid.int >> 80) / 1000, UTC)
        assert began_at < datetime.now(UTC) - timedelta(days=2)  # by Postgres' clock
    assert stores.log.count("release") == 2  # at its start, for a worker of its name
    assert stores.log[-1] == "release"
    assert {"submit", "save"} <= set(stores.log)


async def test_leases_end_though_not_everything_could_be_stored(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailableError("no Postgres")

    monkeypatch.setattr("zerofleet.services.selfplay.worker._LEAVE_SECONDS", 0.3)
    monkeypatch.setattr(stores, "submit_games", away)
    worker = make_worker(stores)
    async with running(worker):
        await until(lambda: worker.writer.spooled)
    assert worker.writer.spooled > 0
    assert stores.log[-1] == "release"


@pytest.mark.parametrize("part", ["submit_games", "save_unfinished"])
async def test_it_says_how_many_finished_games_are_lost_when_that_is_known(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailableError("no Postgres")

    told: list[int] = []
    # Where games can be stored, enough for all of them on a machine that stalls.
    leave = 0.3 if part == "submit_games" else 3.0
    monkeypatch.setattr("zerofleet.services.selfplay.worker._LEAVE_SECONDS", leave)
    monkeypatch.setattr("zerofleet.services.selfplay.worker.tell_lost_games", told.append)
    worker = make_worker(stores)
    with structlog.testing.capture_logs() as events:
        async with running(worker):
            await until(lambda: stores.stored and worker.writer.spooled)
            monkeypatch.setattr(stores, part, away)
            if part == "submit_games":  # the call that was under way may have stored all
                await until(lambda: "Postgres" in str(worker.waits))
    assert told == [worker.writer.spooled]
    assert (told[0] > 0) == (part == "submit_games")
    names = [event["event"] for event in events if event["log_level"] in ("warning", "error")]
    late = "left_without_postgres" if told[0] else "left_before_all_was_saved"
    assert names.count(late) == 1
    assert stores.log[-1] == "release"


async def test_it_says_what_is_lost_when_games_can_no_longer_be_stored(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ConfigError("this role may not store games")

    told: list[int] = []
    monkeypatch.setattr("zerofleet.services.selfplay.worker.tell_lost_games", told.append)
    monkeypatch.setattr(stores, "submit_games", refuse)
    worker = make_worker(stores)
    with pytest.raises(ConfigError, match="may not store"):
        await asyncio.wait_for(worker.run(asyncio.Event()), 120)
    assert told == [worker.writer.spooled]
    assert told[0] > 0


@pytest.mark.parametrize("part", ["predict", "save", "beat"])
async def test_an_error_takes_no_finished_game_along(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("unforeseen")

    def refuse(_: object) -> None:
        raise ConfigError("unforeseen: Redis has other users now")

    worker = make_worker(stores)
    [loop] = worker.loops
    task = asyncio.create_task(worker.run(asyncio.Event()))
    await until(lambda: stores.stored and worker.writer.spooled)
    if part == "predict":
        monkeypatch.setattr(loop._predictor, "predict", fail)
    elif part == "save":
        monkeypatch.setattr(worker.unfinished, "save", fail)
    else:
        monkeypatch.setattr(stores, "beat", refuse)
    with pytest.raises((RuntimeError, ConfigError), match="unforeseen"):
        await asyncio.wait_for(task, 120)
    assert worker.writer.spooled == 0
    assert len(stores.stored) == worker.totals().games
    if part != "save":
        played = [game for game in loop.engine.unfinished() if game.plies > 0]
        assert {loop.in_play.unfinished(game)[0].game_uid for game in played} <= stores.saved
    assert stores.log[-1] == "release"


async def test_an_error_of_configuration_ends_it_at_once(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    def another_game(_: object) -> None:
        raise ConfigError("another game")

    monkeypatch.setattr(stores, "require_run", another_game)
    with pytest.raises(ConfigError):
        await make_worker(stores).run(asyncio.Event())
    assert stores.log == []
