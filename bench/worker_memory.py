"""Measure the memory of a self-play worker: the real service with real stores and many games."""

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
LONGEST_SECONDS = 120.0  # until all simulations are done
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
    """The worker ended or is too slow; the message has the last line of its log."""


@dataclass(frozen=True, slots=True)
class WorkerSize:
    """Concurrent games of a worker, and simulations for each move; all searches are full."""

    games: int
    simulations: int


def worker_memory(workload: Workload, size: WorkerSize, plies: int) -> Row:
    """Play until all trees have grown, and return the row with the memory of the worker.

    The network costs nothing. Prediction cache and tree reuse are the run file's defaults.

    Args:
        workload: the game.
        size: size of the worker.
        plies: average plies of each game before the measurement.

    Raises:
        WorkerStuckError: the worker ended, or did not play these plies in time.
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
                played = _await_simulations(process, valkey.url(), needed, folder / "worker.log")
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


def _await_simulations(
    process: subprocess.Popen[bytes], redis_url: str, needed: int, log: Path
) -> int:
    """Wait until the worker has reported a number of simulations.

    Args:
        process: the worker.
        redis_url: URL of the Redis with its heartbeats.
        needed: number of simulations.
        log: log of the worker.

    Returns:
        The number of simulations that it reported.

    Raises:
        WorkerStuckError: the worker ended, or did not get that far in time.
    """
    end = time.monotonic() + LONGEST_SECONDS
    with contextlib.closing(Heartbeats(redis_url, RUN)) as heartbeats:
        while True:
            done = sum(beat.progress for beat in heartbeats.read() if beat.service == "selfplay")
            if done >= needed:
                return done
            if process.poll() is not None or time.monotonic() > end:
                last = log.read_text(encoding="utf-8").splitlines()[-1:] or ["its log is empty"]
                raise WorkerStuckError(
                    f"the worker ran {done:,} of {needed:,} simulations: {last[0]}"
                )
            time.sleep(0.2)
