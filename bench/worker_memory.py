"""How much memory a worker takes: the real service, over real stores, with many games at once."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from bench.children import serving
from bench.processes import resident_bytes
from bench.report import Row
from bench.serve_file import RUN
from bench.stores import bench_folder, postgres_of
from bench.workloads import Workload
from zerofleet.config import load_run
from zerofleet.errors import ZerofleetError
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.local.processes import start_child, stop_child
from zerofleet.local.valkey import EmbeddedValkey

ENGINES = 2
LONGEST_SECONDS = 120.0
MIB = 1 << 20
_RUN_FILE = """\
name = "{run}"
preset = "plain"
game = "{game}"

[search]
num_simulations = {simulations}

[selfplay]
engines = {engines}
games_per_engine = {games}
"""


class WorkerStuckError(ZerofleetError):
    """The worker ended, or does not get on; the message has what it said last."""


@dataclass(frozen=True, slots=True)
class WorkerSize:
    """Games at once, and simulations of each of their moves: all are full searches."""

    games: int
    simulations: int


def worker_memory(workload: Workload, size: WorkerSize, plies: int) -> Row:
    """Play with a network that costs nothing until all trees are grown; then look.

    Cache and kept tree are as a run file has them by default.

    Args:
        workload: whose game is played.
        size: of the worker.
        plies: of each game, on average, that are played before the last look.
    """
    games = max(1, size.games // ENGINES)
    text = _RUN_FILE.format(
        run=RUN, game=workload.game, simulations=size.simulations, engines=ENGINES, games=games
    )
    with bench_folder() as folder, serving(workload.game, None) as (_, address):
        run_file = folder / "run.toml"
        run_file.write_text(text)
        with (
            postgres_of(load_run(run_file), folder) as postgres,
            EmbeddedValkey(folder / "valkey") as valkey,
        ):
            environment = {
                "ZEROFLEET_DATABASE_URL": postgres.url("worker"),
                "ZEROFLEET_REDIS_URL": valkey.url(),
                "ZEROFLEET_INFERENCE_ADDRESS": address,
            }
            needed = plies * ENGINES * games * size.simulations
            with _worker(run_file, environment) as process:
                played = _play(process, valkey.url(), needed, folder / "worker.log")
                now, most = resident_bytes(process.pid)
    return {
        "bench": "memory",
        "game": workload.name,
        "games": ENGINES * games,
        "simulations": size.simulations,
        "simulations_played": played,
        "resident_mib": round(now / MIB),
        "most_resident_mib": round(most / MIB),
        "kib_per_game": round(most / 1024 / (ENGINES * games), 1),
    }


@contextlib.contextmanager
def _worker(run_file: Path, environment: dict[str, str]) -> Generator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-P", "-m", "zerofleet.services.selfplay", str(run_file)]
    process = start_child(command, environment, run_file.with_name("worker.log"))
    try:
        yield process
    finally:
        stop_child(process)


def _play(process: subprocess.Popen[bytes], redis_url: str, needed: int, log: Path) -> int:
    """Wait until the worker has said that it has run so many simulations; how many they are."""
    end = time.monotonic() + LONGEST_SECONDS
    with contextlib.closing(Heartbeats(redis_url, RUN)) as heartbeats:
        while True:
            done = sum(beat.progress for beat in heartbeats.read() if beat.service == "selfplay")
            if done >= needed:
                return done
            if process.poll() is not None or time.monotonic() > end:
                last = log.read_text(encoding="utf-8").splitlines()[-1:] or ["it says nothing"]
                raise WorkerStuckError(f"the worker ran {done:,} of {needed:,}: {last[0]}")
            time.sleep(0.2)
