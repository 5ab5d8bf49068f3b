"""Measure how long a search by the inference service takes, by clients and simulations.

``python -m bench.search_latency go9`` serves the workload's network with random weights. Each
client requests the search of a random position, and sends the next request as soon as it has the
response.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np

from bench import blocks as measured
from bench.blocks import Block, Counts
from bench.children import serving
from bench.model_file import model_bytes
from bench.processes import cpu_clock
from bench.report import Row, parser, positive, run_main, show
from bench.workloads import Workload
from zerofleet.client import AsyncPlayer
from zerofleet.games import State
from zerofleet.prediction import PRECISIONS

COLUMNS = {
    "clients": ("clients", "d"),
    "simulations": ("simulations", ",d"),
    "searches/s": ("searches_per_second", ",.1f"),
    "p50 ms": ("p50_ms", ",.1f"),
    "p95 ms": ("p95_ms", ",.1f"),
    "p99 ms": ("p99_ms", ",.1f"),
    "server, ms/search": ("server_ms_per_search", ",.2f"),
}
POSITIONS = 256  # distinct positions


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print a row for each number of clients and of simulations."""
    command_line = parser("bench.search_latency", __doc__)
    command_line.set_defaults(seconds=2.0)
    command_line.add_argument(
        "--clients",
        type=positive(int),
        nargs="+",
        default=[1, 8],
        help="numbers of concurrent clients [1 8]",
    )
    command_line.add_argument(
        *("--simulations", "-n"),
        type=positive(int),
        nargs="+",
        default=[100, 400, 1600],
        help="numbers of simulations of a search [100 400 1600]",
    )
    command_line.add_argument(
        "--sessions", type=positive(int), default=1, help="model sessions, with a thread each [1]"
    )
    command_line.add_argument(
        "--precision", choices=PRECISIONS, default="fp32", help="precision of the model [fp32]"
    )
    options = command_line.parse_args(argv)
    workload: Workload = options.workload
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        file.write_bytes(model_bytes(workload, options.precision))
        with serving(workload.game, file, options.sessions) as (server, address):
            rows = asyncio.run(measure(workload, address, server.pid, options))
    title = f"{workload.name}, {workload.network_name} {options.precision}, searches over gRPC"
    show(rows, title, COLUMNS, as_json=options.json)


async def measure(
    workload: Workload, address: str, server: int, options: argparse.Namespace
) -> list[Row]:
    """Interleave all numbers of clients with all numbers of simulations; return their rows.

    Args:
        workload: the game and the served network.
        address: host and port of the server.
        server: PID of the server.
        options: the command line.
    """
    positions = random_games(workload.game, POSITIONS, seed=1)
    async with AsyncExitStack() as stack:
        players = [
            await stack.enter_async_context(AsyncPlayer(address))
            for _ in range(max(options.clients))
        ]
        loads = {
            f"{clients} x {simulations}": Searches(players[:clients], simulations, positions)
            for clients, simulations in itertools.product(options.clients, options.simulations)
        }
        done = await measured.interleave(
            {name: load.block for name, load in loads.items()},
            options.seconds,
            options.blocks,
            cpu_clock({"server": server}),
        )
    about: Row = {
        "bench": "search_latency",
        "game": workload.name,
        "network": workload.network_name,
        "precision": options.precision,
    }
    return [about | summary(load, done[name]) for name, load in loads.items()]


def random_games(game: str, count: int, seed: int) -> list[list[int]]:
    """Return the actions that lead to ``count`` positions of random play, none of them terminal."""
    chance = random.Random(seed)
    found: list[list[int]] = []
    state, played = State(game), list[int]()
    while len(found) < count:
        found.append(list(played))
        played.append(chance.choice(state.legal_actions()))
        state.apply(played[-1])
        if state.is_terminal:
            state, played = State(game), []
    return found


class Searches:
    """Clients that request one search after another.

    Args:
        players: one for each client.
        simulations: simulations of a search.
        positions: the actions that lead to each position; the clients take turns with them.
    """

    def __init__(
        self, players: Sequence[AsyncPlayer], simulations: int, positions: Sequence[list[int]]
    ) -> None:
        self.clients, self.simulations = len(players), simulations
        self._players = players
        self._positions = itertools.cycle(positions)
        self.waits: list[list[float]] = []
        """Latency of each search in seconds: one list for each block."""

    async def block(self, seconds: float) -> Counts:
        """Search for at least this time; return the number of ``searches``."""
        waits: list[float] = []
        self.waits.append(waits)
        end = time.monotonic() + seconds

        async def search(player: AsyncPlayer) -> None:
            while time.monotonic() < end:
                sent = time.perf_counter()
                await player.search(next(self._positions), simulations=self.simulations)
                waits.append(time.perf_counter() - sent)

        async with asyncio.TaskGroup() as group:
            for player in self._players:
                group.create_task(search(player))
        return {"searches": len(waits)}


def summary(load: Searches, blocks: list[Block]) -> Row:
    """Return the fields of a load: medians over blocks, and percentiles over all searches.

    Args:
        load: the clients.
        blocks: their blocks without the warm-up.
    """
    waits = np.concatenate(load.waits[-len(blocks) :])
    p50, p95, p99 = (round(1e3 * float(np.quantile(waits, q)), 2) for q in (0.5, 0.95, 0.99))
    server = measured.cpu_us_each(blocks, "searches", "server")
    return {
        "clients": load.clients,
        "simulations": load.simulations,
        "searches_per_second": round(measured.per_second(blocks, "searches"), 1),
        "p50_ms": p50,
        "p95_ms": p95,
        "p99_ms": p99,
        "server_ms_per_search": round(server / 1e3, 3),
    }


if __name__ == "__main__":
    run_main(main)
