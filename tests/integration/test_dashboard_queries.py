"""The queries of the dashboard, compared with plain SQL."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from zerofleet.config import run_from_values
from zerofleet.database import Database
from zerofleet.errors import StoreUnavailableError
from zerofleet.fleet.figures import (
    AutoscalerFigures,
    InferenceFigures,
    SelfplayFigures,
    TrainerFigures,
)
from zerofleet.fleet.heartbeat import Heartbeat
from zerofleet.local.processes import free_port
from zerofleet.services.dashboard import run_queries
from zerofleet.services.dashboard.run_queries import MOST_POINTS, CurveReader, GameBlocks, RunCurves
from zerofleet.services.dashboard.settings import DashboardSettings
from zerofleet.services.dashboard.sources import (
    GameCount,
    SharedReading,
    Sources,
    StripReader,
    sum_up,
)

RUN = run_from_values({"name": "test", "game": {"name": "tic_tac_toe"}})


@pytest.fixture
def settings(role_url: Callable[[str], str], valkey_url: str) -> DashboardSettings:
    return DashboardSettings(
        run_file=Path("run.toml"), database_url=role_url("console"), redis_url=valkey_url
    )


@pytest.fixture
async def sources(database: Database, settings: DashboardSettings) -> AsyncIterator[Sources]:
    del database  # the fixture registers the run
    async with Sources(RUN, settings) as opened:
        yield opened


def play(database: Database, games: int) -> None:
    """Store self-play games, each in a committed transaction."""
    database._run(
        "INSERT INTO games (game_uid, run, kind, first_model, result, reason, length, worker, "
        "started_at, finished_at, moves, content_sha256, began_at) "
        "SELECT gen_random_uuid(), 'test', 'selfplay', 1, i % 3 - 1, 'rules', 5 + i % 5, 'w', "
        "now(), now(), (i % 2)::text, decode(repeat('00', 32), 'hex'), now() "
        "FROM generate_series(1, :games) AS i",
        games=games,
    )


async def test_games_are_counted_once_and_all(
    database: Database, sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zerofleet.services.dashboard.sources._MOST_COUNTED", 50)
    count = GameCount()
    total = 0
    for games in (20, 0, 30, 7):
        play(database, games)
        total += games
        # One look counts this many games; later looks count the rest.
        for _ in range(3):
            counted = await count.read(sources, "test")
        assert counted == total
    with database._transaction() as connection:
        connection.exec_driver_sql("SELECT pg_current_xact_id()")
        await asyncio.to_thread(play, database, 5)
        assert await count.read(sources, "test") == total + 5
        connection.exec_driver_sql(
            "INSERT INTO games (game_uid, run, kind, first_model, result, reason, length, worker, "
            "started_at, finished_at, moves, content_sha256, began_at) SELECT gen_random_uuid(), "
            "run, kind, first_model, result, reason, length, worker, started_at, finished_at, "
            "moves, content_sha256, began_at FROM games LIMIT 1"
        )
    assert await count.read(sources, "test") == total + 6, "one committed behind later ones"


async def test_blocks_hold_every_hundred_games(database: Database, sources: Sources) -> None:
    for _ in range(5):
        play(database, 90)
    blocks = GameBlocks()
    await blocks.read_new(sources, "test")
    assert [block.games for block in blocks.blocks] == [100] * 4
    assert blocks.is_complete
    play(database, 150)
    await blocks.read_new(sources, "test")
    assert [block.games for block in blocks.blocks] == [100] * 6
    [row] = database._rows(
        "SELECT avg(length) AS length, count(*) FILTER (WHERE result = 1) AS wins FROM games"
    )
    assert sum(block.length for block in blocks.blocks) / 6 == pytest.approx(float(row.length))
    assert sum(block.first_wins for block in blocks.blocks) == row.wins
    assert blocks.blocks[5].distinct_share == 0.02
    joined = blocks.blocks[0].joined(blocks.blocks[1])
    assert joined.games == 200
    assert joined.draws == blocks.blocks[0].draws + blocks.blocks[1].draws


async def test_games_of_a_long_run_are_read_bit_by_bit_and_it_says_how_many(
    database: Database, sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_queries, "_BLOCKS_PER_QUERY", 1)
    monkeypatch.setattr(run_queries, "_QUERIES_PER_READ", 2)
    for _ in range(3):
        play(database, 90)
    reader = CurveReader(sources, "test")
    first, second = await reader.read(), await reader.read()
    assert (sum(block.games for block in first.blocks), first.games_stored) == (200, 270)
    assert (sum(block.games for block in second.blocks), second.games_stored) == (200, None)


async def test_a_long_series_is_thinned_between_its_ends(
    database: Database, sources: Sources
) -> None:
    epoch = database.acquire_fence("test", "trainer")
    database._run(
        "INSERT INTO train_metrics (run, step, split, policy_loss, value_loss, epoch, calibration) "
        "SELECT 'test', i * 7, split, i, 1, :epoch, CAST(:stages AS jsonb) "
        "FROM generate_series(1, 3000) AS i, unnest(ARRAY['train', 'held_out']) AS split",
        epoch=epoch,
        stages='[{"stage":1,"positions":4,"predicted":0.5,"actual":1,"squared_error":0.25}]',
    )
    curves = await CurveReader(sources, "test").read()
    assert len(curves.trained) <= MOST_POINTS + 1
    steps = [row.step for row in curves.trained]
    assert steps == sorted(set(steps))
    assert steps[0] == 7
    assert 21_000 - steps[-1] <= 2 * 21_000 / MOST_POINTS
    assert [row.policy_loss for row in curves.held_out] == [step / 7 for step in steps]
    assert {(row.stage, row.predicted) for row in curves.stages} == {(1, 0.5)}
    assert sum(row.positions for row in curves.stages) == 40 * 4
    assert (curves.ratings, curves.exams, curves.resignations) == ([], [], [])


async def test_what_is_wrong_with_training_is_said_until_it_ends(
    database: Database, sources: Sources
) -> None:
    epoch = database.acquire_fence("test", "trainer")
    reader = CurveReader(sources, "test")

    async def said_after(step: int, event: str, detail: str) -> list[tuple[object, object]]:
        database.insert_train_event("test", step, event, detail, epoch)
        return [(row.warning, row.detail) for row in (await reader.read()).warnings]

    overfits, narrows = ("overfits", "gaps"), ("narrows", "70% differ")
    assert await said_after(1, "overfit_begins", "gaps") == [overfits]
    assert await said_after(2, "narrow_begins", "70% differ") == [overfits, narrows]
    assert await said_after(3, "overfit_ends", "closed") == [narrows]
    assert await said_after(4, "narrow_ends", "86% differ") == []


async def test_nothing_can_be_written(sources: Sources) -> None:
    with pytest.raises(StoreUnavailableError, match="read-only"):
        await sources.rows("CREATE TABLE more (one integer)")


async def test_a_source_says_since_when_it_is_away(settings: DashboardSettings) -> None:
    nowhere = settings.model_copy(update={"redis_url": f"redis://127.0.0.1:{free_port()}/0"})
    async with Sources(RUN, nowhere) as sources:
        reader = StripReader(sources, sources.run)
        await reader.read_services()
        first = await reader.read()
        await reader.read_services()
        again = await reader.read()
        assert [each.name for each in again.outages] == ["Redis"]
        assert again.outages[0].since == first.outages[0].since
        assert "Redis has been unavailable since" in again.outages[0].words
        assert again.figures is not None
        assert (await reader.read_services()).health == ("Service status unknown", "idle")


async def test_the_views_of_another_version_are_said_until_they_are_mended(
    database: Database, sources: Sources
) -> None:
    database._run("UPDATE definitions SET digest = 'other' || digest")
    reader = StripReader(sources, sources.run)
    [outage] = (await reader.read()).outages
    assert outage.name == "Postgres"
    assert "another version of zerofleet: run `zerofleet migrate`" in outage.words
    database._run("UPDATE definitions SET digest = substr(digest, 6)")
    assert (await reader.read()).outages == ()


def test_the_strip_shows_the_status_of_each_service() -> None:
    beats = [
        Heartbeat("i", 1, "", InferenceFigures(provider="cpu")),
        Heartbeat("a", 1, "", SelfplayFigures(games_per_hour=10.0, positions_per_second=3.0)),
        Heartbeat("b", 1, "Postgres", SelfplayFigures(games_per_hour=5.0)),
        Heartbeat("t", 1_500, "", TrainerFigures(window_limit=1)),
        Heartbeat("s", 1, "its first figures", AutoscalerFigures(), status="idle"),
    ]
    services = sum_up(beats, 1_000)
    assert (services.games_per_hour, services.positions_per_second, services.step) == (
        15.0,
        3.0,
        1_500,
    )
    assert services.next_model == "in 500 steps"
    assert [(lamp.service, lamp.words, lamp.colour) for lamp in services.lamps] == [
        ("inference", "Running on cpu", "positive"),
        ("selfplay", "1 of 2: Running, 1 of 2: Waiting for Postgres", "warning"),
        ("trainer", "Running", "positive"),
        ("evaluator", "Down (no heartbeat)", "negative"),
        ("autoscaler", "Idle: waiting for its first figures", "idle"),
    ]
    assert services.health == (
        "3 of 5 services healthy: evaluator Down (no heartbeat); "
        "selfplay 1 of 2: Running, 1 of 2: Waiting for Postgres",
        "negative",
    )


def test_a_process_that_does_not_respond_is_red_and_is_not_counted() -> None:
    worker = Heartbeat("a", 1, "", SelfplayFigures(games_per_hour=10.0))
    dead = replace(worker, worker="b", age_seconds=6.0)
    words = "Not responding (last heartbeat 6 s ago)"
    one, both = sum_up([worker, dead]), sum_up([dead])
    assert one.games_per_hour == 10.0
    assert one.lamps[1].words == f"1 of 2: Running, 1 of 2: {words}"
    assert one.lamps[1].colour == "warning"
    assert both.games_per_hour is None
    assert (both.lamps[1].words, both.lamps[1].colour) == (words, "negative")


def test_the_strip_of_a_stopped_run_misses_no_service() -> None:
    just_ended = Heartbeat(
        "a", 1, "", SelfplayFigures(games_per_hour=10.0, positions_per_second=3.0)
    )
    beats = [just_ended, Heartbeat("t", 1, "", TrainerFigures())]
    beats.append(Heartbeat("i", 1, "", InferenceFigures(provider="cpu")))
    found = sum_up(beats, run_is_stopped=True)
    assert (found.games_per_hour, found.positions_per_second, found.step) == (None, None, None)
    assert [(lamp.service, lamp.words, lamp.colour) for lamp in found.lamps] == [
        ("run", "Stopped", "idle"),
        ("inference", "Running on cpu", "positive"),
    ]
    assert found.health == ("Run stopped, 1 of 1 services healthy", "positive")
    assert found.next_model == "–"


async def test_twenty_pages_cost_one_reading() -> None:
    read = 0
    go = asyncio.Event()

    async def value() -> int:
        nonlocal read
        await go.wait()
        go.clear()
        read += 1
        return read // 2

    reports: list[tuple[int, int]] = []
    came = asyncio.Event()

    def tell(page: int) -> Callable[[int], None]:
        def told_page(now: int) -> None:
            if page == 3:
                came.set()
                raise ValueError("this page cannot be drawn")
            reports.append((page, now))

        return told_page

    reading = SharedReading("test", value, 0.0)
    leave = [reading.watch(tell(page)) for page in range(20)]
    go.set()
    await asyncio.wait_for(came.wait(), 60)
    assert (read, len(reports)) == (1, 19)
    late: list[int] = []
    leave.append(reading.watch(late.append))
    assert late == [0]
    for each in leave:
        each()
        each()
    assert reading.watchers == 0
    assert RunCurves() == RunCurves()


async def test_a_reading_that_loads_history_goes_on_without_the_usual_pause() -> None:
    read = itertools.count(1)
    seen: list[int] = []
    whole = asyncio.Event()

    async def value() -> int:
        return next(read)

    def show(number: int) -> None:
        seen.append(number)
        if number == 4:
            whole.set()

    reading = SharedReading("test", value, 3600, is_loading=lambda number: number < 4)
    leave = reading.watch(show)
    await asyncio.wait_for(whole.wait(), 60)
    leave()
    assert seen == [1, 2, 3, 4]


@pytest.mark.parametrize("name", ["\0", "test\0", "no such run", "9" * 5000, "'"])
async def test_a_run_of_any_name_is_there_or_not(sources: Sources, name: str) -> None:
    assert await sources.find_run(name) is None
