"""The kinds of faults: each does its harm, undoes it, and says in a few words what it did.

``KINDS`` names them all. A kind gets the fleet, which has settled, and the chance of its round;
when it returns nothing stands in the fleet's way any more. What this machine cannot do is a
``CannotError``.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from random import Random

import psutil
import psycopg2

from bench.chaos_checks import Ledger
from bench.chaos_fleet import NAME, SERVICES, STORES, HurtFleet, eventually
from tests.support.half_up import refusing_writes
from zerofleet.database.connection import connect
from zerofleet.errors import ZerofleetError
from zerofleet.local.postgres_cluster import find_programs
from zerofleet.local.processes import LOOPBACK
from zerofleet.redis_connection import open_redis

_DISK = "2g"
_NEW_NAMESPACE = 0x00020000  # CLONE_NEWNS of unshare(2)
_LEAVE_SECONDS = 10.0
_CLOCKS = {"all clocks": "", "Postgres' clock": "postgres", "Redis' clock": "valkey-server"}
_JUMPS = (-86_400, -3_600, -60, 60, 3_600, 86_400)  # seconds
_PIECE = 65_536
_HEAVY_AT_ONCE = 3
_HEAVY_QUERIES = (
    "SELECT a FROM generate_series(1, 100000000) AS a ORDER BY -a",  # temporary files
    "SELECT count(*) FROM (SELECT DISTINCT md5(a::text) FROM generate_series(1, 50000000) AS a) q",
    "SELECT count(*) FROM games a, games b, games c",
    "SELECT sum(length(string_agg)) FROM (SELECT string_agg(repeat('x', 1000), '') "
    "FROM generate_series(1, 900000) AS a) q",  # memory
    "SELECT pg_advisory_lock(a) FROM generate_series(1, 1000000) AS a",
    "SELECT pg_notify('a', repeat('x', 7000)) FROM generate_series(1, 1000000) AS a",
)
_FORGED = (
    '{"retention": {"partition_hours": 0}}',
    '{"retention": {"partition_hours": "x", "max_disk_gb": -1, "forget": 7}}',
    "[]",
    '{"x": "' + 100_000 * "y" + '"}',
)


class CannotError(ZerofleetError):
    """This machine, or this user, cannot have the fault; the message says what lacks."""


Fault = Callable[[HurtFleet, Random], str]


def send(number: signal.Signals, target: str, fleet: HurtFleet, chance: Random) -> str:
    """KILL or TERM a process of a service, a store, ``up``, or all that there are."""
    victims = fleet.processes(target)
    if target in SERVICES:
        victims = [chance.choice(victims)]
    elif target in STORES:  # the server, or one of Postgres' backends alone
        victims = [chance.choice((victims[0], victims[-1]))]
    for victim in victims:
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.send_signal(number)
    psutil.wait_procs(victims, _LEAVE_SECONDS)  # or what is settled would be what was before
    if target in ("up", "all"):
        fleet.wait()
        fleet.start()
    return ""


def freeze(target: str, fleet: HurtFleet, chance: Random) -> str:
    """STOP a service, a store with all its backends, ``up`` or all; CONT after a while."""
    victims = fleet.processes(target)
    if target in SERVICES:
        victims = [chance.choice(victims)]
    seconds = chance.uniform(5.0, fleet.longest_stop)
    for victim in victims:
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.suspend()
    time.sleep(seconds)
    for victim in victims:
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.resume()
    return f"{seconds:.0f} s"


def wipe_redis(fleet: HurtFleet, chance: Random) -> str:
    """Empty Redis."""
    del chance
    client, _ = open_redis(fleet.urls()["redis"])
    with contextlib.closing(client):
        client.flushall()
    return ""


def refuse_writes(code: str, fleet: HurtFleet, chance: Random) -> str:
    """Have Redis answer and refuse writes for a while; games must come in meanwhile."""
    seconds = chance.uniform(5.0, fleet.longest_stop)
    began, games = time.monotonic(), fleet.stored_games()
    with refusing_writes(fleet.urls()["redis"], code):
        time.sleep(seconds)
        eventually(lambda: fleet.stored_games() > games, f"games while Redis says {code}")
    return f"{time.monotonic() - began:.0f} s"


def burden(fleet: HurtFleet, chance: Random) -> str:
    """Run the heaviest queries that a visitor's role may send, without the page's limits.

    Games must come in while the queries run. Postgres may refuse a query or end its connection.
    """
    seconds = chance.uniform(5.0, fleet.longest_stop)
    began, games = time.monotonic(), fleet.stored_games()
    deadline = began + seconds
    url = fleet.urls()["visitor"]
    queries = chance.sample(_HEAVY_QUERIES, k=_HEAVY_AT_ONCE)
    visitors = [
        threading.Thread(target=_repeat, args=(url, query, deadline), daemon=True)
        for query in queries
    ]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join()
    eventually(lambda: fleet.stored_games() > games, "games while a visitor's queries run")
    return f"{time.monotonic() - began:.0f} s"


def _repeat(url: str, query: str, deadline: float) -> None:
    while (left := deadline - time.monotonic()) > 0:
        with (
            contextlib.suppress(psycopg2.Error),
            contextlib.closing(connect(url)) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SET statement_timeout = %s", (max(1, round(1000 * left)),))
            cursor.execute(query)
        time.sleep(0.1)


def forge_run(fleet: HurtFleet, chance: Random) -> str:
    """Store runs that no version of ours would store, start the fleet again, and remove them."""
    for number, config in enumerate(_FORGED):
        fleet.change(
            "INSERT INTO runs (name, game, config) VALUES (%s, 'tic_tac_toe', %s)",
            *(f"forged-{number}" + chance.randint(0, 1) * "n" * 60, config),
        )
    fleet.change("DELETE FROM partition_tries")
    try:
        games = fleet.stored_games()
        eventually(lambda: fleet.stored_games() > games, "games while forged runs are stored")
        fleet.stop()
        fleet.start()
        games = fleet.stored_games()
        eventually(lambda: fleet.stored_games() > games, "games after a start with forged runs")
    finally:
        fleet.change("DELETE FROM runs WHERE name LIKE 'forged-%'")
    return f"{len(_FORGED)} runs"


def restore_dump(fleet: HurtFleet, chance: Random) -> str:
    """Dump Postgres while all play, stop a while later, and go on from the dump.

    Games that were acknowledged after the dump are gone with it, and ``Watch.begin_anew`` is to be
    told; every one that was acknowledged before must have come back.
    """
    programs, dump = find_programs().folder, fleet.data.parent / "zerofleet.dump"
    lines = fleet.ledger.read_text().splitlines()[fleet.restored_lines :]
    before = fleet.restored | {line.split()[0] for line in lines if "stored" in line}
    url = fleet.urls()["owner"]
    subprocess.run([programs / "pg_dump", "-Fc", f"--file={dump}", url], check=True)
    time.sleep(chance.uniform(1.0, 5.0))
    fleet.stop()
    with fleet.stores_alone() as running:
        url = running.database_urls["owner"]
        anew = (
            "DROP SCHEMA public CASCADE",
            "CREATE SCHEMA public AUTHORIZATION pg_database_owner",
        )
        orders = [part for order in anew for part in ("-c", order)]
        subprocess.run([programs / "psql", "-q", url, *orders], check=True, capture_output=True)
        whole = ("--single-transaction", "--exit-on-error", f"--dbname={url}")
        subprocess.run([programs / "pg_restore", *whole, dump], check=True)
        stored = {uid for (uid,) in fleet.query("SELECT game_uid::text FROM games")}
    dump.unlink()
    if lost := before - stored:
        raise ZerofleetError(f"{len(lost)} games that the dump must have are not in it")
    fleet.restored, fleet.restored_lines = stored, len(fleet.ledger.read_text().splitlines())
    fleet.start()
    return f"{len(stored)} games"


def fill_disk(fleet: HurtFleet, chance: Random) -> str:
    """Take all room of the data folder for a while."""
    if not fleet.has_own_disk:
        raise CannotError("only root may mount the small file system that is filled")
    seconds = chance.uniform(5.0, fleet.longest_stop)
    ballast = fleet.data / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        os.posix_fallocate(file.fileno(), 0, max(1, shutil.disk_usage(fleet.data).free - _PIECE))
        file.seek(0, os.SEEK_END)
        while True:
            file.write(bytes(_PIECE))
    deadline = time.monotonic() + seconds
    # space that the fleet frees in the meantime is taken as well
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as file:
            file.write(bytes(_PIECE))
        time.sleep(0.1)
    ballast.unlink()
    return f"{seconds:.0f} s" + _started_again(fleet)


def _started_again(fleet: HurtFleet) -> str:
    """A person starts a fleet again that has ended for want of room."""
    if not fleet.has_ended:
        return ""
    fleet.start()
    return ", `up` had ended"


@contextlib.contextmanager
def own_disk(folder: Path) -> Generator[bool]:
    """Make a folder a small file system that nobody else sees; whether that could be done.

    It goes with this process, however that ends: mounts of a namespace of its own.
    """
    mounted = False
    if os.geteuid() == 0 and not ctypes.CDLL(None).unshare(_NEW_NAMESPACE):
        tmpfs = ["mount", "-t", "tmpfs", "-o", f"size={_DISK},mode=0755", "chaos", str(folder)]
        mounted = all(
            subprocess.run(command, check=False, capture_output=True).returncode == 0
            for command in (["mount", "--make-rprivate", "/"], tmpfs)
        )
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def jump_clocks(fleet: HurtFleet, chance: Random) -> str:
    """Start the fleet with clocks that obey us, make them jump three times, and put them right."""
    clock, library = fleet.data.parent / "clock", fleet.data.parent / "jumping_clock.so"
    _build(library)
    whose = chance.choice(sorted(_CLOCKS))
    told = {"LD_PRELOAD": str(library), "JUMPING_CLOCK": str(clock)}
    if _CLOCKS[whose]:
        told["JUMPING_CLOCK_OF"] = _CLOCKS[whose]
    clock.write_bytes(bytes(8))
    fleet.stop()
    fleet.start(told)
    games = fleet.stored_games()
    eventually(lambda: fleet.stored_games() > games, "games under our clock")
    jumps = [chance.choice(_JUMPS) for _ in range(3)]
    for seconds in jumps:
        with clock.open("r+b") as file:
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))
        time.sleep(chance.uniform(3.0, 6.0))
    games = fleet.stored_games()
    eventually(lambda: fleet.stored_games() > games, "games after the last jump")
    fleet.stop()
    fleet.start()
    return f"{whose}: " + ", ".join(f"{seconds:+d} s" for seconds in jumps)


def _build(library: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        raise CannotError("there is no C compiler to build bench/jumping_clock.c with")
    source = Path(__file__).with_name("jumping_clock.c")
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, source], check=True)


def second(service: str, fleet: HurtFleet, chance: Random) -> str:
    """Start one more trainer or evaluator by hand; end it after a while, kindly or not."""
    before = _epoch(fleet, service)
    process = fleet.by_hand(service)
    try:
        eventually(lambda: _epoch(fleet, service) > before, f"the second {service} begins")
        time.sleep(chance.uniform(5.0, 15.0))
        _end(process, chance)
    finally:
        process.kill()
        process.wait()
    return f"epoch {before} to {_epoch(fleet, service)}, then it left with {process.returncode}"


def _epoch(fleet: HurtFleet, role: str) -> int:
    rows = fleet.query("SELECT epoch FROM fences WHERE run = %s AND role = %s", NAME, role)
    return rows[0][0] if rows else 0


def _end(process: subprocess.Popen[bytes], chance: Random) -> None:
    """As ``up`` ends a service, or at once."""
    process.send_signal(chance.choice((signal.SIGTERM, signal.SIGKILL)))
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_LEAVE_SECONDS)


def partition(server: str, fleet: HurtFleet, chance: Random) -> str:
    """A third worker whose way to a server stalls for a while; it leaves, kindly or not.

    It may leave while it is apart, but not from Postgres, nor before Postgres has answered for all
    that it holds: with it would go the games that began and ended meanwhile, of which nobody else
    knows.
    """
    proxy = StallingProxy(fleet.port(server))
    worker = fleet.by_hand("selfplay", {fleet.port(server): proxy.port})
    seconds = chance.uniform(5.0, fleet.longest_stop)
    try:
        name = f"{socket.gethostname()}-{worker.pid}"
        eventually(lambda: fleet.stored_games(name), f"games of the worker {name}")
        ledger = Ledger(fleet.ledger)
        ledger.read()
        ledger.finished.clear()
        proxy.stall()
        time.sleep(seconds)
        dies_apart = chance.random() < 0.25 and server != "postgres"
        if not dies_apart:
            proxy.flow()
            games = fleet.stored_games(name)
            eventually(lambda: fleet.stored_games(name) > games, f"more games of {name}")
            ledger.read()
            held = set(ledger.finished)
            eventually(lambda: ledger.has_answered(held), f"all that {name} held is stored")
        _end(worker, chance)
    finally:
        worker.kill()
        worker.wait()
        proxy.close()
    return f"{seconds:.0f} s" + (", ended apart" if dies_apart else "")


class StallingProxy:
    """Passes bytes on to a port of this machine; while it stalls none, and tells nobody."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._flows = threading.Event()
        self._flows.set()
        self._sockets: list[socket.socket] = []
        self._door = socket.create_server((LOOPBACK, 0))
        self.port: int = self._door.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def stall(self) -> None:
        """Keep every byte that comes from now on, and every new connection waiting."""
        self._flows.clear()

    def flow(self) -> None:
        """Pass on what was kept, and whatever comes."""
        self._flows.set()

    def close(self) -> None:
        """End all connections."""
        for each in (self._door, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._flows.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the door is closed
            while True:
                here, _ = self._door.accept()
                threading.Thread(target=self._connect, args=(here,), daemon=True).start()

    def _connect(self, here: socket.socket) -> None:
        self._sockets.append(here)
        self._flows.wait()
        try:
            there = socket.create_connection((LOOPBACK, self._target))
        except OSError:
            here.close()
            return
        self._sockets.append(there)
        threading.Thread(target=self._pass_on, args=(there, here), daemon=True).start()
        self._pass_on(here, there)

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while content := source.recv(_PIECE):
                self._flows.wait()
                sink.sendall(content)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


_TARGETS = (*SERVICES, *STORES, "up", "all")

KINDS: dict[str, Fault] = {
    **{f"KILL {target}": partial(send, signal.SIGKILL, target) for target in _TARGETS},
    **{f"STOP {target}": partial(freeze, target) for target in _TARGETS},
    **{f"TERM {target}": partial(send, signal.SIGTERM, target) for target in _TARGETS},
    "Redis wiped": wipe_redis,
    "Redis read-only": partial(refuse_writes, "READONLY"),
    "Redis out of memory": partial(refuse_writes, "OOM"),
    "Redis unable to save": partial(refuse_writes, "MISCONF"),
    "heaviest queries of a visitor": burden,
    "forged runs": forge_run,
    "dump restored": restore_dump,
    "disk full": fill_disk,
    "clocks jump": jump_clocks,
    **{f"two {service}s": partial(second, service) for service in ("trainer", "evaluator")},
    **{
        f"worker apart from {server}": partial(partition, server)
        for server in (*STORES, "inference")
    },
}
