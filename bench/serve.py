"""Measure the cost of the wire: clients at once and batch sizes against the inference service.

``python -m bench.serve`` keeps messages in flight on one stream a client, all clients in one
process, and prints requests and positions a second, how long an answer takes, and the CPU time of
both ends. The server has a process of its own and a network that does nothing: what is measured is
gRPC, protobuf, the batcher and numpy. ``--network`` gives it the workload's network instead.

``tax`` compares with the 339 us that a network of 6 blocks of 64 filters takes for a position of Go
on one CPU core.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench import blocks as measured
from bench.blocks import Block, Counts
from bench.children import serving
from bench.games_played import random_positions
from bench.model_file import model_bytes
from bench.processes import cpu_clock
from bench.providers import MAX_BATCH_ROWS
from bench.report import Row, game_option, parser, positive, run_main, show
from bench.serve_file import RUN
from bench.workloads import Workload
from zerofleet.client import AsyncModel
from zerofleet.prediction import PRECISIONS, Predictor

SMALL_NETWORK_MICROSECONDS = 339.0
COLUMNS = {
    "clients": ("clients", "d"),
    "batch": ("batch", ",d"),
    "messages/s": ("requests_per_second", ",d"),
    "positions/s": ("positions_per_second", ",d"),
    "p50 ms": ("p50_ms", ".2f"),
    "p95 ms": ("p95_ms", ".2f"),
    "p99 ms": ("p99_ms", ".2f"),
    "client, us/message": ("client_us_per_message", ",.0f"),
    "server, us/message": ("server_us_per_message", ",.0f"),
    "us/position": ("us_per_position", ".2f"),
    "tax": ("tax", ".2%"),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parse(argv)
    workload: Workload = options.workload
    with ExitStack() as stack:
        file = None
        if options.network:
            file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "model.onnx"
            file.write_bytes(model_bytes(workload, options.precision))
        server, address = stack.enter_context(serving(workload.game, file, options.sessions))
        rows = asyncio.run(measure(workload, address, server.pid, options))
    network = workload.network_name if options.network else "no network"
    title = f"{workload.name}, {network}, {options.in_flight} messages in flight a client"
    show(rows, title, COLUMNS, as_json=options.json)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    found = parser("bench.serve", __doc__, game=False)
    found.set_defaults(seconds=0.7)
    game_option(found)
    found.add_argument("--clients", type=positive(int), nargs="+", default=[1, 8], help="[1 8]")
    found.add_argument(
        "--batch", type=rows, nargs="+", default=[1, 64, 256, 1024], help="[1 64 256 1024]"
    )
    found.add_argument("--in-flight", type=positive(int), default=2, help="of a client [2]")
    found.add_argument("--sessions", type=positive(int), default=1, help="model threads [1]")
    found.add_argument("--unary", action="store_true", help="a call each instead of streams")
    found.add_argument("--network", action="store_true", help="with the workload's network")
    found.add_argument("--precision", choices=PRECISIONS, default="fp32")
    return found.parse_args(argv)


def rows(text: str) -> int:
    """For ``argparse``: a batch that the server takes."""
    number = int(text)
    if not 1 <= number <= MAX_BATCH_ROWS:
        raise argparse.ArgumentTypeError(f"{text} is not in 1 .. {MAX_BATCH_ROWS}")
    return number


async def measure(
    workload: Workload, address: str, server: int, options: argparse.Namespace
) -> list[Row]:
    """Every number of clients with every batch size, in turn."""
    positions = random_positions(workload.game, max(options.batch), seed=1)
    async with AsyncExitStack() as stack:
        predictors: list[Predictor] = []
        for _ in range(max(options.clients)):
            model = await stack.enter_async_context(
                AsyncModel(address, RUN, message_rows=max(options.batch))
            )
            predictors.append(
                model if options.unary else await stack.enter_async_context(model.stream())
            )
        loads = {
            f"{clients} x {batch}": Load(
                predictors[:clients], np.ascontiguousarray(positions[:batch]), options.in_flight
            )
            for clients, batch in itertools.product(options.clients, options.batch)
        }
        done = await measured.interleave(
            {name: load.block for name, load in loads.items()},
            options.seconds,
            options.blocks,
            cpu_clock({"server": server}),
        )
    about: Row = {
        "bench": "serve",
        "game": workload.name,
        "network": workload.network_name if options.network else "none",
        "path": "unary" if options.unary else "stream",
    }
    return [about | summary(load, done[name]) for name, load in loads.items()]


class Load:
    """Clients that ask again as soon as they are answered.

    Args:
        predictors: one a client.
        observations: ``[rows, observation_bytes]`` of every message.
        in_flight: messages that a client has out at once.
    """

    def __init__(
        self, predictors: Sequence[Predictor], observations: NDArray[np.uint8], in_flight: int
    ) -> None:
        self.clients, self.batch = len(predictors), len(observations)
        self._predictors = predictors
        self._observations = observations
        self._in_flight = in_flight
        self.waits: list[list[float]] = []
        """Seconds until each answer, a list for each block."""

    async def block(self, seconds: float) -> Counts:
        """Ask for a while."""
        waits: list[float] = []
        self.waits.append(waits)
        end = time.monotonic() + seconds

        async def ask(predictor: Predictor) -> None:
            while time.monotonic() < end:
                sent = time.perf_counter()
                await predictor.predict(self._observations)
                waits.append(time.perf_counter() - sent)

        async with asyncio.TaskGroup() as group:
            for predictor in self._predictors:
                for _ in range(self._in_flight):
                    group.create_task(ask(predictor))
        return {"requests": len(waits), "positions": len(waits) * self.batch}


def summary(load: Load, blocks: list[Block]) -> Row:
    """Medians over blocks; percentiles over all their answers."""
    waits = np.concatenate(load.waits[-len(blocks) :])
    p50, p95, p99 = (round(1e3 * float(np.quantile(waits, q)), 3) for q in (0.5, 0.95, 0.99))
    client, server = (
        measured.cpu_us_each(blocks, "requests", process) for process in ("client", "server")
    )
    each = (client + server) / load.batch
    return {
        "clients": load.clients,
        "batch": load.batch,
        "requests_per_second": round(measured.per_second(blocks, "requests")),
        "positions_per_second": round(measured.per_second(blocks, "positions")),
        "p50_ms": p50,
        "p95_ms": p95,
        "p99_ms": p99,
        "client_us_per_message": round(client, 1),
        "server_us_per_message": round(server, 1),
        "us_per_position": round(each, 3),
        "tax": round(each / SMALL_NETWORK_MICROSECONDS, 4),
    }


if __name__ == "__main__":
    run_main(main)
