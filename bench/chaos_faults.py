"""The kinds of faults. Each injects a fault, ends it, and returns a short note about it.

``KINDS`` maps names to functions. A function gets a fleet that has settled and the round's random
generator. When it returns, the fleet can work again. It raises ``UnsupportedFaultError`` if this
machine cannot inject the fault.
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
from bench.chaos_fleet import NAME, SERVICES, STORES, ChaosFleet, eventually
from tests.support.half_up import refusing_writes
from zerofleet.database.connection import connect
from zerofleet.errors import ZerofleetError
from zerofleet.local.postgres_cluster import find_programs
from zerofleet.local.processes import LOOPBACK
from zerofleet.redis_connection import open_redis

_DISK_SIZE = "2g"
_CLONE_NEWNS = 0x00020000  # flag of unshare(2)
_EXIT_SECONDS = 10.0
_CLOCKS = {"all clocks": "", "Postgres' clock": "postgres", "Redis' clock": "valkey-server"}
_JUMPS = (-86_400, -3_600, -60, 60, 3_600, 86_400)  # seconds
_CHUNK_BYTES = 65_536
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


class UnsupportedFaultError(ZerofleetError):
    """This machine or this user cannot inject the fault. The message says what is missing."""


Fault = Callable[[ChaosFleet, Random], str]
"""Injects and ends a fault, given the fleet and the round's random generator; returns a note."""


def send_signal(number: signal.Signals, target: str, fleet: ChaosFleet, chance: Random) -> str:
    """Send SIGKILL or SIGTERM to a random process of a service or a store, to ``up``, or to all.

    If ``target`` is ``up`` or ``all``, start the fleet again.
    """
    victims = fleet.processes(target)
    if target in SERVICES:
        victims = [chance.choice(victims)]
    elif target in STORES:  # the server, or only one of Postgres' backends
        victims = [chance.choice((victims[0], victims[-1]))]
    for victim in victims:
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.send_signal(number)
    psutil.wait_procs(victims, _EXIT_SECONDS)  # so that settling does not see the old processes
    if target in ("up", "all"):
        fleet.wait()
        fleet.start()
    return ""


def freeze(target: str, fleet: ChaosFleet, chance: Random) -> str:
    """Suspend a process of a service, a whole store, ``up`` or all, and resume it after a while."""
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


def wipe_redis(fleet: ChaosFleet, chance: Random) -> str:
    """Delete all keys in Redis."""
    del chance
    client, _ = open_redis(fleet.urls()["redis"])
    with contextlib.closing(client):
        client.flushall()
    return ""


def refuse_writes(code: str, fleet: ChaosFleet, chance: Random) -> str:
    """Make Redis answer but refuse writes for a while. Games must be stored in the meantime.

    Args:
        code: Redis' error: ``READONLY``, ``OOM`` or ``MISCONF``.
        fleet: the fleet.
        chance: random generator of the round.

    Raises:
        NotInTimeError: no game was stored.
    """
    seconds = chance.uniform(5.0, fleet.longest_stop)
    start, games = time.monotonic(), fleet.stored_games()
    with refusing_writes(fleet.urls()["redis"], code):
        time.sleep(seconds)
        eventually(lambda: fleet.stored_games() > games, f"games while Redis says {code}")
    return f"{time.monotonic() - start:.0f} s"


def run_heavy_queries(fleet: ChaosFleet, chance: Random) -> str:
    """Run heavy queries with the visitor's role, without the limits of the dashboard.

    Games must be stored while the queries run. Postgres may refuse a query or end its connection.

    Raises:
        NotInTimeError: no game was stored.
    """
    seconds = chance.uniform(5.0, fleet.longest_stop)
    start, games = time.monotonic(), fleet.stored_games()
    deadline = start + seconds
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
    return f"{time.monotonic() - start:.0f} s"


def _repeat(url: str, query: str, deadline: float) -> None:
    """Run a query again and again until ``deadline``, a time of ``time.monotonic``."""
    while (left := deadline - time.monotonic()) > 0:
        with (
            contextlib.suppress(psycopg2.Error),
            contextlib.closing(connect(url)) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SET statement_timeout = %s", (max(1, round(1000 * left)),))
            cursor.execute(query)
        time.sleep(0.1)


def forge_run(fleet: ChaosFleet, chance: Random) -> str:
    """Store runs with configurations that no version writes, restart the fleet, and delete them.

    Games must be stored before and after the restart.

    Raises:
        NotInTimeError: no game was stored, or the fleet does not stop or start.
    """
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


def restore_dump(fleet: ChaosFleet, chance: Random) -> str:
    """Dump Postgres during play, stop the fleet, restore the dump, and start the fleet again.

    Games that were stored after the dump are lost, so the caller must call ``Watch.reset``. Games
    that were acknowledged before the dump must be in it.

    Raises:
        ZerofleetError: an acknowledged game is missing in the dump.
        subprocess.CalledProcessError: ``pg_dump``, ``psql`` or ``pg_restore`` failed.
    """
    programs, dump = find_programs().folder, fleet.data.parent / "zerofleet.dump"
    lines = fleet.ledger.read_text().splitlines()[fleet.restored_lines :]
    before = fleet.restored | {line.split()[0] for line in lines if "stored" in line}
    url = fleet.urls()["owner"]
    subprocess.run([programs / "pg_dump", "-Fc", f"--file={dump}", url], check=True)
    time.sleep(chance.uniform(1.0, 5.0))
    fleet.stop()
    with fleet.only_stores() as running:
        url = running.database_urls["owner"]
        statements = (
            "DROP SCHEMA public CASCADE",
            "CREATE SCHEMA public AUTHORIZATION pg_database_owner",
        )
        commands = [part for statement in statements for part in ("-c", statement)]
        subprocess.run([programs / "psql", "-q", url, *commands], check=True, capture_output=True)
        options = ("--single-transaction", "--exit-on-error", f"--dbname={url}")
        subprocess.run([programs / "pg_restore", *options, dump], check=True)
        stored = {uid for (uid,) in fleet.query("SELECT game_uid::text FROM games")}
    dump.unlink()
    if lost := before - stored:
        raise ZerofleetError(
            f"{len(lost)} games were acknowledged before the dump but are not in it"
        )
    fleet.restored, fleet.restored_lines = stored, len(fleet.ledger.read_text().splitlines())
    fleet.start()
    return f"{len(stored)} games"


def fill_disk(fleet: ChaosFleet, chance: Random) -> str:
    """Fill the data folder's disk for a while, and start ``up`` again if it has ended.

    Raises:
        UnsupportedFaultError: the data folder is not a small file system of its own.
    """
    if not fleet.has_own_disk:
        raise UnsupportedFaultError("run as root on Linux to mount a small file system to fill")
    seconds = chance.uniform(5.0, fleet.longest_stop)
    ballast = fleet.data / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        os.posix_fallocate(
            file.fileno(), 0, max(1, shutil.disk_usage(fleet.data).free - _CHUNK_BYTES)
        )
        file.seek(0, os.SEEK_END)
        while True:
            file.write(bytes(_CHUNK_BYTES))
    deadline = time.monotonic() + seconds
    # Space that the fleet frees in the meantime is filled, too.
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as file:
            file.write(bytes(_CHUNK_BYTES))
        time.sleep(0.1)
    ballast.unlink()
    return f"{seconds:.0f} s" + _restart_if_ended(fleet)


def _restart_if_ended(fleet: ChaosFleet) -> str:
    """Start ``up`` again if it has ended because the disk was full, and return a note about it."""
    if not fleet.has_ended:
        return ""
    fleet.start()
    return ", `up` had ended"


@contextlib.contextmanager
def small_disk(folder: Path) -> Generator[bool]:
    """Mount a small file system on a folder during the block, and yield whether that worked.

    Only this process and its children see it, because it is in their own mount namespace. So it
    disappears with them, however they end.
    """
    mounted = False
    if os.geteuid() == 0 and not ctypes.CDLL(None).unshare(_CLONE_NEWNS):
        tmpfs = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_SIZE},mode=0755", "chaos", str(folder)]
        mounted = all(
            subprocess.run(command, check=False, capture_output=True).returncode == 0
            for command in (["mount", "--make-rprivate", "/"], tmpfs)
        )
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def jump_clocks(fleet: ChaosFleet, chance: Random) -> str:
    """Restart the fleet with a fake clock, make it jump three times, and restart without it.

    Raises:
        UnsupportedFaultError: there is no C compiler.
        NotInTimeError: no game was stored under the fake clock, or after its last jump.
    """
    clock, library = fleet.data.parent / "clock", fleet.data.parent / "jumping_clock.so"
    _build(library)
    which = chance.choice(sorted(_CLOCKS))
    environment = {"LD_PRELOAD": str(library), "JUMPING_CLOCK": str(clock)}
    if _CLOCKS[which]:
        environment["JUMPING_CLOCK_OF"] = _CLOCKS[which]
    clock.write_bytes(bytes(8))
    fleet.stop()
    fleet.start(environment)
    games = fleet.stored_games()
    eventually(lambda: fleet.stored_games() > games, "games under the fake clock")
    jumps = [chance.choice(_JUMPS) for _ in range(3)]
    for seconds in jumps:
        with clock.open("r+b") as file:
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))
        time.sleep(chance.uniform(3.0, 6.0))
    games = fleet.stored_games()
    eventually(lambda: fleet.stored_games() > games, "games after the last jump")
    fleet.stop()
    fleet.start()
    return f"{which}: " + ", ".join(f"{seconds:+d} s" for seconds in jumps)


def _build(library: Path) -> None:
    """Compile ``jumping_clock.c`` into a shared library."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise UnsupportedFaultError("install a C compiler (cc) to build bench/jumping_clock.c")
    source = Path(__file__).with_name("jumping_clock.c")
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, source], check=True)


def start_second(service: str, fleet: ChaosFleet, chance: Random) -> str:
    """Start a second trainer or evaluator, and stop it after a while with SIGTERM or SIGKILL.

    Raises:
        NotInTimeError: the second process does not become the leader.
    """
    before = _epoch(fleet, service)
    process = fleet.start_another(service)
    try:
        eventually(lambda: _epoch(fleet, service) > before, f"the second {service} to lead")
        time.sleep(chance.uniform(5.0, 15.0))
        _stop(process, chance)
    finally:
        process.kill()
        process.wait()
    return f"epoch {before} to {_epoch(fleet, service)}, exit status {process.returncode}"


def _epoch(fleet: ChaosFleet, role: str) -> int:
    """Return the epoch of a role's current leader; 0 if there was none."""
    rows = fleet.query("SELECT epoch FROM fences WHERE run = %s AND role = %s", NAME, role)
    return rows[0][0] if rows else 0


def _stop(process: subprocess.Popen[bytes], chance: Random) -> None:
    """Send SIGTERM, as ``up`` does, or SIGKILL, and wait up to 10 s for the process to exit."""
    process.send_signal(chance.choice((signal.SIGTERM, signal.SIGKILL)))
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_EXIT_SECONDS)


def partition(server: str, fleet: ChaosFleet, chance: Random) -> str:
    """Start a third worker, stall its connections to a server for a while, and stop it.

    With probability 1/4, the worker is stopped while the connections are stalled, unless the server
    is Postgres. Only the worker knows games that begin and end while Postgres is cut off. So it is
    stopped only after Postgres has answered for all games that it holds.

    Args:
        server: ``postgres``, ``redis`` or ``inference``.
        fleet: the fleet.
        chance: random generator of the round.

    Raises:
        NotInTimeError: the worker does not store games before or after the stall.
    """
    proxy = StallingProxy(fleet.port(server))
    worker = fleet.start_another("selfplay", {fleet.port(server): proxy.port})
    seconds = chance.uniform(5.0, fleet.longest_stop)
    try:
        name = f"{socket.gethostname()}-{worker.pid}"
        eventually(lambda: fleet.stored_games(name), f"games of the worker {name}")
        ledger = Ledger(fleet.ledger)
        ledger.read()
        ledger.finished.clear()
        proxy.stall()
        time.sleep(seconds)
        stop_while_stalled = chance.random() < 0.25 and server != "postgres"
        if not stop_while_stalled:
            proxy.flow()
            games = fleet.stored_games(name)
            eventually(lambda: fleet.stored_games(name) > games, f"more games of {name}")
            ledger.read()
            held = set(ledger.finished)
            eventually(lambda: ledger.has_answered(held), f"answers for all games that {name} held")
        _stop(worker, chance)
    finally:
        worker.kill()
        worker.wait()
        proxy.close()
    return f"{seconds:.0f} s" + (", stopped while cut off" if stop_while_stalled else "")


class StallingProxy:
    """TCP proxy for a port of this machine that can stall without closing its connections.

    Its own port is ``port``, on the loopback address.

    Args:
        target: port to which bytes are forwarded.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._flows = threading.Event()
        self._flows.set()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def stall(self) -> None:
        """Hold back all bytes and new connections from now on."""
        self._flows.clear()

    def flow(self) -> None:
        """Forward what was held back, and everything that follows."""
        self._flows.set()

    def close(self) -> None:
        """Close the port and all connections."""
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._flows.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # raised when the listener is closed
            while True:
                here, _ = self._listener.accept()
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
        threading.Thread(target=self._forward, args=(there, here), daemon=True).start()
        self._forward(here, there)

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while content := source.recv(_CHUNK_BYTES):
                self._flows.wait()
                sink.sendall(content)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


_TARGETS = (*SERVICES, *STORES, "up", "all")

KINDS: dict[str, Fault] = {
    **{f"KILL {target}": partial(send_signal, signal.SIGKILL, target) for target in _TARGETS},
    **{f"STOP {target}": partial(freeze, target) for target in _TARGETS},
    **{f"TERM {target}": partial(send_signal, signal.SIGTERM, target) for target in _TARGETS},
    "Redis wiped": wipe_redis,
    "Redis read-only": partial(refuse_writes, "READONLY"),
    "Redis out of memory": partial(refuse_writes, "OOM"),
    "Redis unable to save": partial(refuse_writes, "MISCONF"),
    "heaviest queries of a visitor": run_heavy_queries,
    "forged runs": forge_run,
    "dump restored": restore_dump,
    "disk full": fill_disk,
    "clocks jump": jump_clocks,
    **{f"two {service}s": partial(start_second, service) for service in ("trainer", "evaluator")},
    **{
        f"worker apart from {server}": partial(partition, server)
        for server in (*STORES, "inference")
    },
}
