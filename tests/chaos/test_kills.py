"""SIGKILL of each service at random moments under load: nothing stored is lost or doubled.

The oracle is a ledger: every worker appends the uid of each game that has ended, before Postgres
hears of it, and of each that Postgres has answered for, before it forgets the game. Whatever was
answered for is stored; whatever has ended is stored too, or unfinished still: a worker that was
killed with it had saved it, since it is longer than ``save_every_plies``, and others go on with it.
"""

import contextlib
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from zerofleet.best_pointer import BestPointer
from zerofleet.config import load_run
from zerofleet.database import Database
from zerofleet.games import spec
from zerofleet.models.folder import ModelFolder
from zerofleet.models.session import ModelSession
from zerofleet.redis_connection import open_redis

pytestmark = pytest.mark.fleet

RUN_FILE = Path(__file__).parents[2] / "runs" / "connect_four.toml"
NAME = load_run(RUN_FILE).name
SERVICES = ("selfplay", "inference", "trainer", "evaluator")
# Small enough that a model is published and judged every few seconds.
SMALL = (
    "preset=plain",
    "rating.games=0",
    "network.blocks=1",
    "network.channels=8",
    "search.num_simulations=16",
    "search.simulations_start=16",
    "selfplay.save_every_plies=4",
    "selfplay.lease_seconds=2",
    "selfplay.games_per_engine=64",
    "trainer.min_positions=500",
    "trainer.publish_every_steps=20",
    "trainer.checkpoint_every_steps=20",
    "evaluator.gate=true",
    "evaluator.games=8",
    "evaluator.num_simulations=8",
    "evaluator.threshold=0.3",
    "exam.positions=10",
    "exam.num_simulations=8",
)
SEED = 20261120


@dataclass
class Report:
    """What the kills did."""

    kills: Counter[str] = field(default_factory=Counter)
    pointer_checks: int = 0
    pointer_unloadable: int = 0
    pointer_moved_back: int = 0
    wipes: int = 0


@dataclass
class Fleet:
    """A running ``zerofleet up`` with two workers, and how to reach its parts."""

    process: subprocess.Popen[bytes]
    data: Path
    log: Path
    report: Report = field(default_factory=Report)
    last_seq: int = 0

    def running(self) -> dict[str, object]:
        with contextlib.suppress(OSError, ValueError):
            return json.loads((self.data / "running.json").read_text())
        return {}

    def database(self) -> Database:
        urls = self.running()["database_urls"]
        assert isinstance(urls, dict)
        return Database(urls["console"])

    def redis_url(self) -> str:
        return str(self.running()["redis_url"])

    def pids(self, service: str) -> list[int]:
        found = []
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if f"services.{service}" in process.cmdline():
                    found.append(process.pid)
        return found

    def said(self) -> str:
        return self.log.read_text()


def eventually(condition: Callable[[], object], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not in {seconds} s: {what}"
        time.sleep(0.05)


@pytest.fixture
def fleet(tmp_path: Path, store_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    data, log = store_folder / f"kills-{tmp_path.name}", tmp_path / "up.log"
    monkeypatch.setenv("ZEROFLEET_SELFPLAY_AUDIT", str(tmp_path / "ledger"))
    settings = [part for setting in SMALL for part in ("--set", setting)]
    command = [sys.executable, "-m", "zerofleet.cli", "up", str(RUN_FILE), "--data", str(data)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--workers", "2", *settings], stdout=output, stderr=subprocess.STDOUT
        )
    fleet = Fleet(process, data, log)
    try:
        eventually(fleet.running, 60, "the stores are up")
        with fleet.database() as database:
            eventually(lambda: database.promotion_head(NAME), 60, "the first promotion")
            eventually(lambda: database.count_games(NAME) > 50, 60, "games")
        yield fleet
    finally:
        process.kill()
        process.wait()


@pytest.mark.chaos
@pytest.mark.slow
def test_a_few_kills_of_each_service(fleet: Fleet, tmp_path: Path, games_twice: str) -> None:
    kill_in_turn(fleet, kills=2)
    check_what_is_left(fleet, tmp_path / "ledger", games_twice)


@pytest.mark.chaos
@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_twenty_kills_of_each_service(fleet: Fleet, tmp_path: Path, games_twice: str) -> None:
    kill_in_turn(fleet, kills=20)
    check_what_is_left(fleet, tmp_path / "ledger", games_twice)


def kill_in_turn(fleet: Fleet, kills: int) -> None:
    """Kill the services one after the other, each at a random moment; wipe Redis now and then."""
    chance = random.Random(SEED)
    with fleet.database() as database:
        for turn in range(kills):
            for service in SERVICES:
                time.sleep(chance.uniform(2.0, 4.0))
                kill_one(fleet, service, chance)
                check_pointer(fleet, database)
            if turn % 5 == 1:
                wipe_redis(fleet, database)


def kill_one(fleet: Fleet, service: str, chance: random.Random) -> None:
    """SIGKILL a process of the service that has come up again since the last time."""
    assert fleet.process.poll() is None, fleet.said()
    eventually(lambda: fleet.pids(service), 30, f"{service} runs again")
    victim = psutil.Process(chance.choice(fleet.pids(service)))
    with contextlib.suppress(psutil.NoSuchProcess):
        victim.send_signal(signal.SIGKILL)
        fleet.report.kills[service] += 1


def check_pointer(fleet: Fleet, database: Database) -> None:
    """What Redis and Postgres call the best is a file that loads, and never an older one."""
    head = database.promotion_head(NAME)
    assert head is not None
    best = BestPointer(fleet.redis_url(), NAME).get()
    named = {database.model(NAME, head.version).sha256}
    if best is not None:
        named.add(best.sha256)
        fleet.report.pointer_moved_back += best.seq < fleet.last_seq
        fleet.last_seq = max(fleet.last_seq, best.seq)
    folder = ModelFolder(fleet.data / "models", NAME)
    for sha256 in named:
        fleet.report.pointer_checks += 1
        try:
            ModelSession(folder.read_verified(sha256), spec("connect_four"))
        except Exception as error:  # whatever it is, it is the finding
            print(f"cannot load {sha256}: {error}")
            fleet.report.pointer_unloadable += 1


def wipe_redis(fleet: Fleet, database: Database) -> None:
    """An empty Redis gets its pointer back from the promotions."""
    client, _ = open_redis(fleet.redis_url())
    with contextlib.closing(client):
        client.flushall()
    fleet.report.wipes += 1
    pointer = BestPointer(fleet.redis_url(), NAME)

    def rebuilt() -> bool:
        best, head = pointer.get(), database.promotion_head(NAME)
        return best is not None and head is not None and best.seq == head.seq

    eventually(rebuilt, 30, "the pointer is rebuilt")


def check_what_is_left(fleet: Fleet, ledger: Path, games_twice: str) -> None:
    """Compare the ledger with the database, once the fleet has come to rest."""
    with fleet.database() as database:
        before = database.count_games(NAME)
        eventually(lambda: database.count_games(NAME) > before, 60, "self-play goes on")
    fleet.process.send_signal(signal.SIGINT)
    assert fleet.process.wait(60) == 0, fleet.said()
    lines = [line.split() for line in ledger.read_text().splitlines()]
    lengths = {uid: int(rest[0]) for uid, what, *rest in lines if what == "finished"}
    acknowledged = Counter(uid for uid, what, *_ in lines if what == "stored")
    ended = Counter(uid for uid, what, *_ in lines if what == "finished")
    answered = Counter(uid for uid, what, *_ in lines if what != "finished")
    cut_off = set(
        ended - answered
    )  # in the spool of a worker that was killed: perhaps stored already
    stored = query(fleet.data, "SELECT game_uid FROM games WHERE kind = 'selfplay'")
    unfinished = set(query(fleet.data, "SELECT game_uid FROM unfinished_games")) - set(stored)
    unstored = set(acknowledged) - set(stored)
    lost = set(ended) - set(stored) - unfinished
    twice = [uid for uid, count in acknowledged.items() if count > 1]
    doubled = query(fleet.data, games_twice)
    unread = query(fleet.data, "SELECT game_uid FROM rejected_games")
    report = fleet.report
    print(
        f"\nkills {dict(report.kills)}, Redis wiped {report.wipes} times (seed {SEED})\n"
        f"games finished {len(ended)}, stored {len(stored)}, acknowledged {len(acknowledged)}\n"
        f"finished games unanswered for at a kill {len(cut_off)}: stored all the same "
        f"{len(cut_off & set(stored))}, unfinished anew {len(cut_off & unfinished)}, "
        f"lost {len(cut_off & lost)} {sorted(lengths[uid] for uid in cut_off & lost)}\n"
        f"games lost {len(lost)}, games stored twice {len(twice) + len(doubled)}, "
        f"games that do not replay {len(unread)}\n"
        f"pointer checked {report.pointer_checks} times: unloadable {report.pointer_unloadable}, "
        f"moved back {report.pointer_moved_back}"
    )
    assert all(report.kills[service] > 0 for service in SERVICES)
    assert len(acknowledged) > 100
    assert (unstored, lost, twice, doubled, unread) == (set(), set(), [], [], [])
    assert (report.pointer_unloadable, report.pointer_moved_back) == (0, 0)


def query(data: Path, text: str) -> list[str]:
    """The first column of a query over the stopped run."""
    command = [sys.executable, "-m", "zerofleet.cli", "sql", "--data", str(data), "-c"]
    copied = f"COPY ({text}) TO STDOUT"
    done = subprocess.run([*command, copied], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()
