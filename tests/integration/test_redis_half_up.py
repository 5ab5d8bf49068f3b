"""Redis that refuses writes, and Redis that hangs: each part says so, and the run goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import redis
import yaml
from structlog.testing import capture_logs
from typer.testing import CliRunner

from tests.support.half_up import REFUSALS, refusing_writes
from tests.support.random_records import random_record
from zerofleet import redis_connection, service
from zerofleet.best_pointer import BestPointer
from zerofleet.cli import app
from zerofleet.cli.match import _evaluator_words
from zerofleet.config import ScalingSection, run_from_values
from zerofleet.database import Database, Promotion, Submission
from zerofleet.errors import StoreFullError, StoreReadOnlyError, StoreUnavailableError
from zerofleet.fleet.figures import EvaluatorFigures, SelfplayFigures, TrainerFigures
from zerofleet.fleet.heartbeat import Heartbeat, Heartbeats
from zerofleet.fleet.report import states_of
from zerofleet.local.monitor import Monitor
from zerofleet.local.supervisor import Child
from zerofleet.local.valkey import EmbeddedValkey
from zerofleet.redis_connection import UP, RedisState, our_errors
from zerofleet.service import Pulse, beat
from zerofleet.services.autoscaler.keda import Watch
from zerofleet.services.dashboard.settings import DashboardSettings
from zerofleet.services.dashboard.sources import Sources, StripReader
from zerofleet.services.dashboard.visitors import Allowance, Visitor
from zerofleet.services.evaluator.promotion_gate import reconcile
from zerofleet.services.inference.served_models import StoredModels
from zerofleet.services.selfplay import pace
from zerofleet.services.selfplay.game_storage import GameWriter
from zerofleet.services.selfplay.pace import Pause, TrainerWatch
from zerofleet.waiting import Waits, awaited

ROOT = Path(__file__).resolve().parents[2]
RUN = run_from_values(
    {
        "name": "test",
        "game": {"name": "tic_tac_toe"},
        "selfplay": {"max_ahead_positions": 100_000},
    }
)
DEPLOYMENTS = ("docker-compose.yml", "deploy/k8s/components/trial-stores/redis.yaml")

Until = Callable[[Callable[[], bool]], Awaitable[None]]


@pytest.fixture(scope="module")
def valkey(store_folder: Path) -> Iterator[EmbeddedValkey]:
    """A Valkey of this file's own: it is made a replica, frozen and so on."""
    folder = Path(tempfile.mkdtemp(dir=store_folder))
    with EmbeddedValkey(folder, {"appendonly": "no"}) as running:
        yield running


@pytest.fixture
def heartbeats(valkey_url: str) -> Iterator[Heartbeats]:
    with contextlib.closing(Heartbeats(valkey_url, "test")) as opened:
        yield opened


@pytest.fixture(params=REFUSALS)
def code(request: pytest.FixtureRequest) -> str:
    return request.param


@contextlib.contextmanager
def frozen(valkey: EmbeddedValkey) -> Generator[None]:
    """A server that accepts connections and answers nothing."""
    assert valkey.process is not None
    valkey.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        valkey.process.send_signal(signal.SIGCONT)


def chain(database: Database, versions: int) -> None:
    """Promote models 1, 2, ... in this order."""
    epoch = database.acquire_fence("test", "trainer")
    for version in range(1, versions + 1):
        database.insert_model("test", version, f"{version:064x}", 0, {}, "m", epoch)
    promote(database, *range(1, versions + 1))


def promote(database: Database, *versions: int) -> None:
    epoch = database.acquire_fence("test", "evaluator")
    for version in versions:
        head = database.promotion_head("test")
        seq = head.seq if head else 0
        database.promote("test", version, None, "e", seq, epoch=epoch)


def test_a_refused_write_is_told_from_a_server_that_is_down(valkey_url: str, code: str) -> None:
    beating = Heartbeat("w", 1, "", SelfplayFigures())
    with (
        contextlib.closing(Heartbeats(valkey_url, "test")) as writer,
        contextlib.closing(Heartbeats(valkey_url, "test")) as reader,
    ):
        writer.beat(beating)
        with refusing_writes(valkey_url, code):
            for write in (lambda: writer.beat(beating), lambda: writer.remove("selfplay", "w")):
                with pytest.raises(StoreReadOnlyError, match=f"takes no writes: {code} ") as caught:
                    write()
                assert awaited(caught.value, "Redis") == "Redis to take writes"
            for read in (reader.read, reader.read_trainer):
                reader.state = UP
                read()
                assert reader.state == writer.state == RedisState.of(caught.value)
                assert reader.state.status == "half up"
        reader.read()
        assert reader.state == UP
        writer.beat(beating)
        assert writer.state == UP


def test_a_server_that_hangs_is_down_and_is_asked_once(
    valkey: EmbeddedValkey, heartbeats: Heartbeats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_connection, "_SECONDS", 0.2)
    with contextlib.closing(Heartbeats(valkey.url(), "test")) as hurried:
        with frozen(valkey), pytest.raises(StoreUnavailableError, match=r"within 0\.2 s") as caught:
            hurried.read()
        assert not isinstance(caught.value, StoreReadOnlyError)
        assert hurried.state.status == "down"
        deadline = time.monotonic() + 120
        while hurried.state != UP:  # a machine that stalls takes longer than it may, too
            assert time.monotonic() < deadline
            with contextlib.suppress(StoreUnavailableError):
                hurried.read()


def test_a_full_disk_refuses_writes_too() -> None:
    full = "MISCONF Errors writing to the AOF file: No space left on device"
    with pytest.raises(StoreFullError), our_errors("here"):
        raise redis.ResponseError(full)
    assert (state := RedisState.of_write(redis.ResponseError(full), "here")) is not None
    assert state.status == "half up"


def test_who_may_not_ask_for_a_write_believes_its_heartbeat(valkey_url: str) -> None:
    """With the users of an earlier version."""
    with redis.Redis.from_url(valkey_url) as client:
        client.execute_command("ACL SETUSER old on >pw ~* +@all -lpushx")
    old = valkey_url.replace("redis://:", "redis://old:").replace(
        valkey_url.split(":")[2].split("@")[0], "pw"
    )
    with (
        contextlib.closing(Heartbeats(old, "test")) as beats,
        refusing_writes(valkey_url, "READONLY"),
    ):
        beats.read()
        assert beats.state == UP
        with pytest.raises(StoreReadOnlyError):
            beats.beat(Heartbeat("w", 1, "", SelfplayFigures()))
        beats.read()
        assert beats.state.status == "half up"


def test_a_postgres_that_is_read_only_is_half_up(database: Database) -> None:
    with (
        pytest.raises(StoreReadOnlyError, match=r"takes no writes: .*read-only"),
        database._transaction() as connection,
    ):
        connection.exec_driver_sql("SET TRANSACTION READ ONLY; DELETE FROM ratings")


@pytest.fixture
def patient_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis is up; a machine that stalls may take longer than a worker waits for its answer."""
    monkeypatch.setattr(pace, "_ANSWER_SECONDS", 60.0)


async def trainer_watch(
    heartbeats: Heartbeats, database: Database
) -> tuple[TrainerWatch, Pause, Waits]:
    waits = Waits()
    writer = cast("GameWriter", SimpleNamespace())
    pause = Pause(writer, RUN.selfplay.max_ahead_positions, waits)
    return TrainerWatch(RUN, heartbeats, database, pause), pause, waits


@pytest.mark.usefixtures("patient_watch")
async def test_play_is_paced_by_postgres_where_redis_takes_no_writes(
    database: Database, valkey_url: str, heartbeats: Heartbeats, code: str
) -> None:
    """A heartbeat that cannot be renewed says nothing, whether it is still there or not."""
    watch, pause, waits = await trainer_watch(heartbeats, database)
    epoch = database.acquire_fence("test", "trainer")
    most = RUN.selfplay.max_ahead_positions
    heartbeats.beat(Heartbeat("t", 1, "", TrainerFigures(unspent_positions=0.0)))
    for beats in (True, False):
        if not beats:
            heartbeats.remove("trainer", "t")
            while heartbeats.read():
                pass
        with refusing_writes(valkey_url, code):
            database.record_progress("test", most / 2, 0, epoch)
            await watch.look()
            assert not pause.waits_for_trainer
            database.record_progress("test", most * 2, 0, epoch)
            await watch.look()
            assert str(waits) == f"the trainer, {most} positions behind"
    # The heartbeat has not come back yet: the record of a trainer that runs counts.
    database.record_progress("test", 0.0, 0, epoch)
    await watch.look()
    assert not pause.waits_for_trainer


@pytest.mark.usefixtures("patient_watch")
async def test_a_trainer_that_is_down_is_still_told(
    database: Database, heartbeats: Heartbeats
) -> None:
    watch, pause, waits = await trainer_watch(heartbeats, database)
    await watch.look()  # none has ever run
    assert str(waits) == "the trainer to start"
    epoch = database.acquire_fence("test", "trainer")
    database.record_progress("test", 0.0, 0, epoch)
    await watch.look()
    assert not pause.waits_for_trainer
    database._run("UPDATE trainer_progress SET at = now() - interval '1 hour'")
    await watch.look()
    assert str(waits) == "the trainer to start"
    database.record_progress("test", 0.0, 0, epoch)
    heartbeats.beat(Heartbeat("t", 1, "", TrainerFigures()))  # it reads its window
    await watch.look()
    assert str(waits) == "the trainer to start"


async def test_play_is_paced_by_postgres_while_redis_hangs(
    database: Database, valkey: EmbeddedValkey, heartbeats: Heartbeats, until: Until
) -> None:
    watch, pause, _ = await trainer_watch(heartbeats, database)
    epoch = database.acquire_fence("test", "trainer")
    with frozen(valkey):
        for behind, is_paused in ((0.0, False), (1e9, True), (0.0, False)):
            database.record_progress("test", behind, 0, epoch)
            await watch.look()
            assert pause.waits_for_trainer == is_paused
    heartbeats.beat(Heartbeat("t", 1, "", TrainerFigures(unspent_positions=1e9)), ttl=600)
    looking = asyncio.create_task(watch.watch())
    await until(lambda: pause.waits_for_trainer)
    heartbeats.beat(Heartbeat("t", 1, "", TrainerFigures(unspent_positions=0.0)), ttl=600)
    await until(lambda: not pause.waits_for_trainer)
    looking.cancel()


@pytest.mark.usefixtures("patient_watch")
async def test_play_is_paced_by_postgres_while_the_trainer_is_stuck(
    database: Database, heartbeats: Heartbeats, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frozen trainer's heartbeat stays for seconds, one of a trainer in a long step for minutes.

    The same holds for a heartbeat that somebody else wrote.
    """
    monkeypatch.setattr(pace, "_COUNT_SECONDS", 0.0)
    few = run_from_values(
        {"name": "test", "game": "tic_tac_toe", "selfplay": {"max_ahead_positions": 3000}}
    )
    waits = Waits()
    pause = Pause(cast("GameWriter", SimpleNamespace()), 3000, waits)
    watch = TrainerWatch(few, heartbeats, database, pause)
    heartbeats.beat(Heartbeat("t", 1, "", TrainerFigures(unspent_positions=0.0)), ttl=600)
    database.submit_game("test", "w", Submission(random_record(1)))
    database._run("UPDATE games SET length = 32000, ingested_at = now() - interval '4 seconds'")
    await watch.look()
    assert not pause.waits_for_trainer, "a trainer that records nothing is believed"
    epoch = database.acquire_fence("test", "trainer")
    database.record_progress("test", 0.0, 0, epoch)
    await watch.look()
    assert str(waits) == "the trainer, 3000 positions behind"
    database.record_progress("test", 0.0, database.read_games("test", 0, 10).next_tx, epoch)
    await watch.look()
    assert not pause.waits_for_trainer
    database.record_progress("test", 4000.0, 0, epoch)
    await watch.look()
    assert pause.waits_for_trainer, "the record counts more than a heartbeat of nothing"


def test_games_stored_since_the_trainers_record_count(database: Database) -> None:
    assert database.positions_ahead("test", 0.5, 1e6).age_seconds is None
    epoch = database.acquire_fence("test", "trainer")
    records = [random_record(seed) for seed in (1, 2)]
    database.submit_game("test", "w", Submission(records[0]))
    page = database.read_games("test", 0, 10)
    database.record_progress("test", 12.0, page.next_tx, epoch)
    ahead = database.positions_ahead("test", 0.5, 1e6)
    assert ahead.positions == 12.0
    assert ahead.age_seconds is not None
    database.submit_game("test", "w", Submission(records[1]))
    ahead = database.positions_ahead("test", 0.5, 1e6)
    assert ahead.positions == 12.0 + records[1].length / 2
    assert ahead.unread_positions == 12.0, "the trainer may have read what is so new"
    database._run("UPDATE games SET ingested_at = now() - interval '4 seconds'")
    ahead = database.positions_ahead("test", 0.5, 1e6)
    assert ahead.unread_positions == ahead.positions
    assert database.positions_ahead("test", 0.5, 11.0).positions == 12.0, "enough is enough"
    with pytest.raises(StoreUnavailableError):
        Database("postgresql://u@127.0.0.1:1/d").positions_ahead("test", 0.5, 1e6)


def test_a_pointer_that_cannot_move_is_not_believed(
    database: Database, valkey_url: str, code: str
) -> None:
    now = [0.0]
    chain(database, 2)
    with contextlib.closing(BestPointer(valkey_url, "test", lambda: now[0])) as pointer:
        source = StoredModels("test", database, pointer)
        pointer.reconcile(database)
        assert source.best() == Promotion(2, 2, f"{2:064x}")
        with refusing_writes(valkey_url, code):
            promote(database, 1)
            with pytest.raises(StoreReadOnlyError):
                pointer.set_if_newer(Promotion(3, 1, f"{1:064x}"))
            assert pointer.get() == Promotion(2, 2, f"{2:064x}")
            now[0] = 30.0
            assert source.best() == Promotion(3, 1, f"{1:064x}")
            now[0] = 31.0
            assert source.best() == Promotion(3, 1, f"{1:064x}"), "it is not forgotten either"
        promote(database, 2)
        pointer.reconcile(database)
        assert source.best() == Promotion(4, 2, f"{2:064x}"), "a pointer that moves is seen at once"


async def test_the_evaluator_says_that_the_pointer_is_not_moved(
    database: Database, valkey_url: str, code: str, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zerofleet.services.evaluator.promotion_gate._RECONCILE_SECONDS", 0.01)
    monkeypatch.setattr("zerofleet.services.evaluator.promotion_gate._AGAIN_SECONDS", 0.01)
    chain(database, 1)
    waits = Waits()
    with contextlib.closing(BestPointer(valkey_url, "test")) as pointer:
        with refusing_writes(valkey_url, code):
            keeping = asyncio.create_task(reconcile(pointer, database, waits))
            await until(lambda: bool(waits))
            assert str(waits) == "Redis to take writes (the best pointer is not moved)"
        await until(lambda: not waits)
        assert pointer.get() == Promotion(1, 1, f"{1:064x}")
        keeping.cancel()


def test_status_names_redis_and_its_reason(
    database: Database,
    role_url: Callable[[str], str],
    valkey_url: str,
    code: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del database  # has the run
    (tmp_path / "run.toml").write_text('name = "test"\ngame = "tic_tac_toe"\n')
    monkeypatch.setenv("ZEROFLEET_DATABASE_URL", role_url("console"))
    monkeypatch.setenv("ZEROFLEET_REDIS_URL", valkey_url)
    monkeypatch.setenv("ZEROFLEET_RUN_FILE", str(tmp_path / "run.toml"))

    def asked(*options: str) -> str:
        return CliRunner().invoke(app, ["status", *options], catch_exceptions=False).output

    values = json.loads(asked("--json"))
    assert (values["redis"], values["up"]) == ({"status": "up", "reason": ""}, False)
    with refusing_writes(valkey_url, code):
        values = json.loads(asked("--json"))
        assert values["up"] is None, "nobody can tell"
        found = values["redis"]
        assert found["status"] == "half up"
        assert f"takes no writes: {code} " in found["reason"]
        lines = dict(line.split(maxsplit=1) for line in asked().splitlines())
        assert lines["Redis"].startswith("half up: Redis at 127.0.0.1:")
        assert "unknown: Redis is half up" in lines["run"]
    assert "starting or stopped" in asked()


def test_a_process_without_a_heartbeat_is_not_down_where_redis_takes_no_writes(
    database: Database, database_url: str, valkey_url: str, heartbeats: Heartbeats
) -> None:
    del database
    pid = os.getpid()
    program = SimpleNamespace(name="selfplay", optional=False)
    child = cast(
        "Child", SimpleNamespace(program=program, restarts=0, process=SimpleNamespace(pid=pid))
    )
    with Monitor(RUN, database_url, valkey_url) as monitor:
        heartbeats.beat(Heartbeat(f"host-{pid}", 1, "", SelfplayFigures()))
        monitor.figures()
        assert [state.doing for state in monitor.services([child])] == ["Running"]
        heartbeats.remove("selfplay", f"host-{pid}")
        with refusing_writes(valkey_url, "READONLY"):
            assert monitor.figures().redis.status == "half up"
            [state] = monitor.services([child])
            assert (state.doing, state.status) == ("Not known: Redis takes no writes", "blocked")
            late = Heartbeat("w", 1, "", SelfplayFigures(), age_seconds=7.0)
            [state] = states_of([late], monitor.figures().redis)
            assert state.doing.startswith("Not known: Redis takes no writes (last heartbeat 7 s")
        monitor.figures()
        [state] = monitor.services([child])
        assert state.status == "down"


async def test_the_page_says_that_redis_is_half_up_and_since_when(
    database: Database,
    role_url: Callable[[str], str],
    valkey_url: str,
    heartbeats: Heartbeats,
    code: str,
) -> None:
    del database
    settings = DashboardSettings(
        run_file=Path("run.toml"), database_url=role_url("console"), redis_url=valkey_url
    )
    heartbeats.beat(Heartbeat("w", 1, "", SelfplayFigures()))
    async with Sources(RUN, settings) as sources:
        reader = StripReader(sources, sources.run)
        of_a_visitor = sources.of(Visitor("ann", "viewer", Allowance(1)))
        assert (await reader.read_services()).lamps
        with refusing_writes(valkey_url, code):
            for _ in range(2):
                services = await reader.read_services()
                assert services.health == ("Service status unknown", "idle")
                await of_a_visitor.history("test", "selfplay", 60)
                [outage] = sources.outages
                assert f"Redis has been half up since {outage.since:%H:%M:%S} UTC: " in outage.words
                assert f"takes no writes: {code} " in outage.words
        assert (await reader.read_services()).lamps
        assert sources.outages == ()


async def test_the_autoscaler_repeats_its_last_answer(
    valkey_url: str, heartbeats: Heartbeats, code: str
) -> None:
    watch = Watch(heartbeats, ScalingSection())
    await watch.look()
    assert watch.missed_looks == 0
    with refusing_writes(valkey_url, code):
        await watch.look()
        assert watch.missed_looks == 1
        assert watch.pulse().waiting_for == "Redis to take writes"
    await watch.look()
    assert watch.pulse().waiting_for == ""


def test_who_waits_for_a_match_learns_of_it(
    valkey_url: str, heartbeats: Heartbeats, code: str
) -> None:
    assert _evaluator_words(heartbeats) == "waiting for an evaluator to start"
    with refusing_writes(valkey_url, code):
        assert f"takes no writes: {code} " in _evaluator_words(heartbeats)


async def test_a_process_says_once_that_its_heartbeat_is_refused_and_when_that_is_over(
    valkey_url: str,
    heartbeats: Heartbeats,
    code: str,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service, "BEAT_SECONDS", 0.01)
    pulses = [0]

    def pulse() -> Pulse[EvaluatorFigures]:
        pulses[0] += 1
        return Pulse(pulses[0], "", EvaluatorFigures())

    with capture_logs() as logs:
        beating = asyncio.create_task(beat(heartbeats, "e", pulse))
        await until(lambda: pulses[0] > 2)
        with refusing_writes(valkey_url, code):
            await until(lambda: heartbeats.state.status == "half up")
            seen = pulses[0]
            await until(lambda: pulses[0] > seen + 3)
        await until(lambda: any(entry["event"] == "waited" for entry in logs))
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
    said = [(entry["event"], entry.get("waiting_for")) for entry in logs]
    assert said == [("waiting", "Redis to take writes"), ("waited", None)]
    assert f"takes no writes: {code} " in logs[0]["reason"]


async def test_a_redis_that_hangs_does_not_keep_a_process_from_leaving(
    valkey: EmbeddedValkey, valkey_url: str, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_connection, "_SECONDS", 600.0)
    monkeypatch.setattr(service, "BEAT_SECONDS", 0.01)
    hangs = threading.Event()
    with contextlib.closing(Heartbeats(valkey_url, "test")) as heartbeats:
        send = heartbeats.beat

        def sent(said: Heartbeat) -> None:
            hangs.set()
            send(said)

        monkeypatch.setattr(heartbeats, "beat", sent)
        with frozen(valkey):
            pulse = Pulse(1, "", SelfplayFigures())
            beating = asyncio.create_task(beat(heartbeats, "w", lambda: pulse))
            await until(hangs.is_set)
            beating.cancel()
            with pytest.raises(asyncio.CancelledError):
                await beating


def arguments(deployment: str) -> list[str]:
    """The command line of a deployment's Redis."""
    if deployment == "docker-compose.yml":
        return yaml.safe_load((ROOT / deployment).read_text())["services"]["redis"]["command"]
    objects: list[Any] = list(yaml.safe_load_all((ROOT / deployment).read_text()))
    [found] = [each for each in objects if each["kind"] == "StatefulSet"]
    return found["spec"]["template"]["spec"]["containers"][0]["args"]


@pytest.mark.parametrize("deployment", ["embedded", *DEPLOYMENTS])
def test_keys_without_an_expiry_do_not_keep_others_from_writing(
    deployment: str, valkey: EmbeddedValkey, valkey_url: str, heartbeats: Heartbeats
) -> None:
    """A stolen worker may SET as many and as large as it likes."""
    with redis.Redis.from_url(valkey_url) as client:
        names = ("maxmemory", "maxmemory-policy")
        embedded = client.config_get(*names)
        assert embedded["maxmemory"] == str(64 << 20)
        wanted = dict(embedded)
        if deployment != "embedded":
            words = arguments(deployment)
            wanted = {name: words[words.index(f"--{name}") + 1] for name in names}
            assert wanted["maxmemory"].endswith("mb")
        used = client.info("memory")["used_memory"]
        try:
            client.config_set("maxmemory-policy", wanted["maxmemory-policy"])
            client.config_set("maxmemory", used + (2 << 20))
            for number in range(64):
                client.set(f"zerofleet:test:heartbeat:selfplay:{number}", b"x" * (64 << 10))
            heartbeats.beat(Heartbeat("t", 1, "", TrainerFigures(unspent_positions=3.0)))
            with contextlib.closing(BestPointer(valkey_url, "test")) as pointer:
                assert pointer.set_if_newer(Promotion(1, 1, "a"))
                assert pointer.get() == Promotion(1, 1, "a")
            assert heartbeats.read_trainer() == TrainerFigures(unspent_positions=3.0)
            assert heartbeats.state == UP
        finally:
            for name, value in embedded.items():
                client.config_set(name, value)
