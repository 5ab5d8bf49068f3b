"""Redis' users: each service's calls pass as its own user, and everything else is refused."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support.half_up import read_only
from zerofleet.best_pointer import BestPointer
from zerofleet.cli import app
from zerofleet.database import Database, Promotion
from zerofleet.errors import ConfigError, StoreLoginError, StoreUnavailableError
from zerofleet.fleet.figures import KINDS, InferenceFigures, SelfplayFigures, TrainerFigures
from zerofleet.fleet.heartbeat import Heartbeat, HeartbeatHistory, Heartbeats, history_key
from zerofleet.local.processes import free_port, start_child, stop_child
from zerofleet.local.valkey import find_valkey
from zerofleet.redis_connection import UP
from zerofleet.secrets.files import with_password_file
from zerofleet.secrets.redis_users import RULES, acl_file
from zerofleet.waiting import awaited

ONCE = Retry(NoBackoff(), 0)
BEAT_AS = {  # the services that beat, and as whom
    "selfplay": "worker",
    "inference": "inference",
    "trainer": "trainer",
    "evaluator": "evaluator",
    "autoscaler": "autoscaler",
    "dashboard": "dashboard",
}
READ_NOTES = {"dashboard", "console"}
READ_BEATS = READ_NOTES | {"autoscaler"}
HEAR_TRAINER = READ_BEATS | {"worker"}
READ_BEST = {"worker", "inference", "evaluator"} | READ_NOTES
MOVE_BEST = {"evaluator"}
OPERATE = {"operator"}
FORBIDDEN = (
    *("FLUSHALL", "FLUSHDB", "KEYS *", "CONFIG GET *", "CONFIG SET dir /tmp", "SHUTDOWN"),
    *("DEBUG SLEEP 0", "MONITOR", "SAVE", "BGREWRITEAOF", "REPLICAOF NO ONE", "CLIENT KILL ID 1"),
    *("ACL SETUSER x on", "ACL LIST", "SCRIPT FLUSH", "FUNCTION FLUSH", "SWAPDB 0 1"),
    *("GET zerofleet:test:best", "SET zerofleet:test:heartbeat:x:y 1", "SET other 1"),
    *("GET other", "HGETALL other", "DEL other", "SUBSCRIBE x", "PUBLISH x y", "RANDOMKEY"),
    *("EVAL return(1) 1 other", "DEL zerofleet:test:heartbeat:x:y"),
    *("XADD zerofleet:test:history:x:y * a 1", "EXPIRE zerofleet:test:heartbeat:x:y 1"),
    *("SET zerofleet:test:probe 1", "LPUSH zerofleet:test:probe 1", "DEL zerofleet:test:probe"),
    *("LPUSHX zerofleet:test:best 1", "LPUSHX zerofleet:test:heartbeat:x:y 1"),
    *("SET zerofleet:test:history:x:y 1", "XRANGE other - +", "DEL zerofleet:test:history:x:y"),
)


class Server:
    """A Valkey with the users that ``zerofleet redis-acl`` prints, and one for the test itself."""

    def __init__(self, folder: Path) -> None:
        self.passwords = folder / "passwords"
        self.passwords.mkdir()
        for user in RULES:
            (self.passwords / user).write_text(f"canary-{user}\n")
        self.users = folder / "users.acl"
        self.write_users()
        self.port = free_port()
        settings = (
            f'port {self.port}\nbind 127.0.0.1\nsave ""\naclfile {self.users}\n'
            "enable-debug-command local\n"  # so that it is the user who may not
        )
        configuration = folder / "valkey.conf"
        configuration.write_text(settings)
        self.process = start_child([find_valkey(), configuration], log=folder / "server.log")
        self.all = redis.Redis(port=self.port, username="test", password="all")
        deadline = time.monotonic() + 120
        while True:
            try:
                self.all.ping()
            except redis.ConnectionError:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            else:
                return

    def write_users(self) -> None:
        self.users.write_text(acl_file(self.passwords) + "user test on >all ~* &* +@all\n")

    def url(self, user: str) -> str:
        return with_password_file(f"redis://{user}@127.0.0.1:{self.port}/0", self.passwords / user)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("redis-users"))
    yield server
    server.all.close()
    stop_child(server.process)


@pytest.fixture
def server(running: Server) -> Server:
    running.all.flushall()
    return running


def is_refused(call: Callable[[], object]) -> bool:
    """Whether Redis' rules forbid it, said so and without a password."""
    try:
        call()
    except ConfigError as error:
        said = str(error)
        return "no permissions" in said.lower() and "canary" not in said
    return False


@pytest.mark.parametrize("user", RULES)
def test_each_call_of_ours_by_each_user(server: Server, user: str) -> None:
    beats, pointer = Heartbeats(server.url(user), "test"), BestPointer(server.url(user), "test")
    with contextlib.closing(beats), contextlib.closing(pointer):
        for service, who in BEAT_AS.items():
            refused = is_refused(partial(beats.beat, Heartbeat("w-1", 1, "", KINDS[service]())))
            assert refused == (user != who), service
            process = "only" if service == "trainer" else "w-1"
            noted = server.all.xlen(history_key("test", service, process))
            assert noted == (user == who != "dashboard"), service
        assert is_refused(beats.read) == (user not in READ_BEATS)
        assert is_refused(beats.read_trainer) == (user not in HEAR_TRAINER)
        assert is_refused(pointer.get) == (user not in READ_BEST)
        moved = is_refused(lambda: pointer.set_if_newer(Promotion(1, 1, "a")))
        assert moved == (user not in MOVE_BEST)
        if user in BEAT_AS.values():
            service = next(service for service, who in BEAT_AS.items() if who == user)
            assert not is_refused(partial(beats.remove, service, "gone"))
    with contextlib.closing(HeartbeatHistory(server.url(user), "test")) as history:
        read = partial(history.read, "selfplay", until=1e9, worker="w-1")
        assert is_refused(read) == (user not in READ_NOTES)
    if user in BEAT_AS.values() and user in READ_BEATS:
        with contextlib.closing(Heartbeats(server.url(user), "test")) as again:
            [beat] = again.read()
            assert (beat.worker, beat.age_seconds > 0) == ("w-1", True)


@pytest.mark.parametrize("user", sorted(HEAR_TRAINER))
def test_a_reader_knows_whether_redis_takes_writes(server: Server, user: str) -> None:
    with contextlib.closing(Heartbeats(server.url(user), "test")) as beats:
        beats.read_trainer()
        assert beats.state == UP
        with read_only(server.all):
            beats.read_trainer()
            assert beats.state.status == "half up"
        beats.read_trainer()
        assert beats.state == UP


def test_a_worker_hears_the_trainer_and_nobody_else(server: Server) -> None:
    with (
        contextlib.closing(Heartbeats(server.url("trainer"), "test")) as trainer,
        contextlib.closing(Heartbeats(server.url("worker"), "test")) as worker,
    ):
        trainer.beat(Heartbeat("t-1", 1, "", TrainerFigures(unspent_positions=5.0)))
        assert worker.read_trainer() == TrainerFigures(unspent_positions=5.0)
    for command in (
        "SCAN 0",
        "MGET zerofleet:test:heartbeat:selfplay:w-1",
        "MGET zerofleet:test:heartbeat:trainer:only zerofleet:test:heartbeat:selfplay:w-1",
    ):
        told = server.all.acl_dryrun("worker", *command.split())
        assert b"no permissions" in as_bytes(told).lower(), (command, told)


def test_the_trainer_hears_inference_and_nobody_else(server: Server) -> None:
    with (
        contextlib.closing(Heartbeats(server.url("inference"), "test")) as inference,
        contextlib.closing(Heartbeats(server.url("worker"), "test")) as worker,
        contextlib.closing(Heartbeats(server.url("trainer"), "test")) as trainer,
    ):
        inference.beat(Heartbeat("i-1", 1, "", InferenceFigures(provider="cuda")))
        worker.beat(Heartbeat("w-1", 1, "", SelfplayFigures()))
        [heard] = trainer.read("inference")
        assert heard.figures == InferenceFigures(provider="cuda")
        assert is_refused(partial(trainer.read, "selfplay"))


def test_the_evaluator_can_repair_the_pointer(server: Server, database: Database) -> None:
    """The script that replaces, too, may do all that it does."""
    epochs = [database.acquire_fence("test", role) for role in ("trainer", "evaluator")]
    database.insert_model("test", 1, f"{1:064x}", 0, {}, "m", epochs[0])
    with contextlib.closing(BestPointer(server.url("evaluator"), "test")) as pointer:
        pointer.set_if_newer(Promotion(9, 9, "of another run"))
        assert pointer.reconcile(database) is None
        assert pointer.get() is None
        database.promote("test", 1, None, "e", 0, epoch=epochs[1])
        pointer.set_if_newer(Promotion(9, 9, "of another run"))
        assert pointer.reconcile(database) == pointer.get() == Promotion(1, 1, f"{1:064x}")


@pytest.mark.parametrize("user", RULES)
def test_nothing_else_is_allowed_to_anybody(server: Server, user: str) -> None:
    """Asked of the server's own rules first, then tried."""
    client = redis.Redis(port=server.port, username=user, password=f"canary-{user}", retry=ONCE)
    with contextlib.closing(client):
        for command in FORBIDDEN:
            words = command.split()
            told = server.all.acl_dryrun(user, *words)
            assert b"no permissions" in as_bytes(told).lower(), (command, told)
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*words)
        if user in OPERATE:
            assert as_bytes(client.acl_whoami()) == user.encode()


def as_bytes(told: Any) -> bytes:
    return told if isinstance(told, bytes) else str(told).encode()


def test_who_is_nobody_gets_nothing(server: Server) -> None:
    for login in ({}, {"password": "canary-worker"}, {"username": "worker", "password": "wrong"}):
        with (
            contextlib.closing(redis.Redis(port=server.port, retry=ONCE, **login)) as client,
            pytest.raises((redis.AuthenticationError, redis.ResponseError)),
        ):
            client.ping()


def test_a_password_is_rotated_without_an_outage(server: Server) -> None:
    """Both are good for a while; the file is read again at each connection."""
    path = server.passwords / "worker"
    with contextlib.closing(Heartbeats(server.url("worker"), "test")) as beats:
        beats.beat(Heartbeat("w", 1, "", SelfplayFigures()))
        path.write_text("canary-new\ncanary-worker\n")
        server.write_users()
        operator = redis.Redis(port=server.port, username="operator", password="canary-operator")
        with contextlib.closing(operator):
            operator.acl_load()  # ends the connections of users that have changed
        beats.beat(Heartbeat("w", 2, "", SelfplayFigures()))
        path.write_text("canary-new\n")
        server.write_users()
        server.all.acl_load()
        beats.beat(Heartbeat("w", 3, "", SelfplayFigures()))
        path.write_text("canary-wrong\n")
        server.all.client_kill_filter(user="worker")
        with pytest.raises(StoreLoginError, match="refuses the password: ") as caught:
            beats.beat(Heartbeat("w", 4, "", SelfplayFigures()))
        assert "canary" not in str(caught.value)
        assert awaited(caught.value, "Redis") == "Redis to accept the login"
        path.unlink()
        with pytest.raises(StoreUnavailableError, match="cannot read"):
            beats.beat(Heartbeat("w", 4, "", SelfplayFigures()))
        path.write_text("canary-new\n")
        beats.beat(Heartbeat("w", 5, "", SelfplayFigures()))
    path.write_text("canary-worker\n")
    server.write_users()
    server.all.acl_load()


def test_the_command_prints_it(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    (tmp_path / "inference").write_text("canary-1\ncanary-2\n")
    printed = CliRunner().invoke(app, ["redis-acl", "--passwords", str(tmp_path)])
    assert printed.exit_code == 0
    assert "canary" not in printed.output
    lines = printed.output.splitlines()
    assert [line.split()[1:3] for line in lines] == [["default", "off"], ["inference", "on"]]
    assert lines[1].count("#") == 2


def test_a_folder_that_is_no_good(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no file named after a user"):
        acl_file(tmp_path)
    (tmp_path / "worker").write_text("\n")
    with pytest.raises(ConfigError, match="is empty"):
        acl_file(tmp_path)
    with pytest.raises(ConfigError, match="cannot read"):
        Heartbeats(with_password_file("redis://worker@127.0.0.1:1", tmp_path / "none"), "test")
