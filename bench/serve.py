"""Measure the cost of gRPC to the inference service, by concurrent clients and batch size.

``python -m bench.serve`` keeps messages in flight on one stream for each client. All clients share
one process. It prints messages and positions per second, the latency, and the CPU time of both
ends.

The server is another process with a network that does nothing. What remains is the cost of gRPC,
protobuf, the batcher and numpy. ``--network`` serves the workload's network instead.

``tax`` is the CPU time of both ends for a position, as a share of 339 us. A network of 6 blocks
with 64 channels takes that long for a position of Go on one CPU core.
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
    """Measure and print a row for each number of clients and each batch size."""
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
    title = f"{workload.name}, {network}, {options.in_flight} messages in flight per client"
    show(rows, title, COLUMNS, as_json=options.json)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    command_line = parser("bench.serve", __doc__, game=False)
    command_line.set_defaults(seconds=0.7)
    game_option(command_line)
    command_line.add_argument(
        "--clients",
        type=positive(int),
        nargs="+",
        default=[1, 8],
        help="numbers of concurrent clients [1 8]",
    )
    command_line.add_argument(
        "--batch",
        type=batch_size,
        nargs="+",
        default=[1, 64, 256, 1024],
        help="numbers of positions in a message [1 64 256 1024]",
    )
    command_line.add_argument(
        "--in-flight",
        type=positive(int),
        default=2,
        help="messages of each client in flight [2]",
    )
    command_line.add_argument(
        "--sessions", type=positive(int), default=1, help="model sessions, with a thread each [1]"
    )
    command_line.add_argument(
        "--unary", action="store_true", help="send each message as a call instead of on a stream"
    )
    command_line.add_argument(
        "--network", action="store_true", help="serve the workload's network, with random weights"
    )
    command_line.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="fp32",
        help="precision of the workload's network [fp32]",
    )
    return command_line.parse_args(argv)


def batch_size(text: str) -> int:
    """Return a batch size of the command line.

    Raises:
        ArgumentTypeError: the server does not accept batches of this size.
    """
    number = int(text)
    if not 1 <= number <= MAX_BATCH_ROWS:
        raise argparse.ArgumentTypeError(f"choose 1 to {MAX_BATCH_ROWS} positions, not {text}")
    return number


async def measure(
    workload: Workload, address: str, server: int, options: argparse.Namespace
) -> list[Row]:
    """Interleave all numbers of clients with all batch sizes; return their rows.

    Args:
        workload: the game and the network.
        address: host and port of the server.
        server: PID of the server.
        options: the command line.
    """
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
    """Clients that send a message as soon as they receive a response.

    Args:
        predictors: one for each client.
        observations: ``[rows, observation_bytes]``, the content of every message.
        in_flight: messages of one client in flight.
    """

    def __init__(
        self, predictors: Sequence[Predictor], observations: NDArray[np.uint8], in_flight: int
    ) -> None:
        self.clients, self.batch = len(predictors), len(observations)
        self._predictors = predictors
        self._observations = observations
        self._in_flight = in_flight
        self.waits: list[list[float]] = []
        """Latency of each message in seconds: one list for each block."""

    async def block(self, seconds: float) -> Counts:
        """Send messages for at least this time; return the number of ``requests`` and positions."""
        waits: list[float] = []
        self.waits.append(waits)
        end = time.monotonic() + seconds

        async def send(predictor: Predictor) -> None:
            while time.monotonic() < end:
                sent = time.perf_counter()
                await predictor.predict(self._observations)
                waits.append(time.perf_counter() - sent)

        async with asyncio.TaskGroup() as group:
            for predictor in self._predictors:
                for _ in range(self._in_flight):
                    group.create_task(send(predictor))
        return {"requests": len(waits), "positions": len(waits) * self.batch}


def summary(load: Load, blocks: list[Block]) -> Row:
    """Return the fields of a load: medians over blocks, and percentiles over all messages.

    Args:
        load: the clients.
        blocks: their blocks without the warm-up.
    """
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
