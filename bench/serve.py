"""What the wire costs: CPU time of client and server per message and per position.

    python -m bench.serve [--batch 64 256] [--in-flight 8] [--seconds 2] [--rounds 3]

The server runs in a process of its own with a network that does nothing, so what is measured is
gRPC, protobuf, the batcher and numpy. Rounds of all batch sizes alternate and the cheapest of each
counts, because a busy machine only ever adds. ``tax`` compares with a network of 339 us a position
(6 blocks of 64 filters on one CPU core).
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import psutil
from numpy.typing import NDArray

from services.inference.backend import Backend
from services.inference.batcher import Batcher, BatchLimits
from services.inference.model import LoadedModel
from services.inference.repository import Promoted, Repository
from zerofleet import games, rpc, telemetry
from zerofleet.prediction import Predictor

RUN = "bench"
SMALL_NETWORK_MICROSECONDS = 339.0


class NoNetwork:
    """Zeros at once."""

    def __init__(self, num_actions: int) -> None:
        self._num_actions = num_actions

    def run(
        self, observations: NDArray[np.uint8]
    ) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
        """``[batch, num_actions]`` and ``[batch]`` zeros."""
        batch = len(observations)
        return np.zeros((batch, self._num_actions), np.float16), np.zeros(batch, np.float32)


class OneModel:
    """A source of one promoted model."""

    def best(self) -> Promoted:
        """Version 1."""
        return Promoted(1, 1, "")

    def promotions(self) -> list[Promoted]:
        """Version 1."""
        return [self.best()]

    def sha256(self, version: int) -> str:
        """No file."""
        return ""

    def versions(self) -> list[int]:
        """Version 1."""
        return [1]


async def serve(game: str) -> None:
    """Serve until killed; print the port."""
    telemetry.configure("bench", level="error")
    spec = games.spec(game)
    repository = Repository(
        RUN, OneModel(), lambda version, sha256: LoadedModel(version, sha256, (NoNetwork(7),))
    )
    await repository.refresh()
    async with Batcher(BatchLimits(4096, 65536), repository.mark_bad) as batcher:
        shape = rpc.ModelShape(spec.observation_bytes, 7, 4096)
        backend = Backend(repository, batcher, shape)
        async with rpc.serve("127.0.0.1:0", inference=backend) as server:
            print(server.port, flush=True)
            await asyncio.Event().wait()


@dataclass(frozen=True)
class Cost:
    """CPU microseconds of one message."""

    client: float
    server: float
    messages_per_s: float

    @property
    def total(self) -> float:
        """Both ends."""
        return self.client + self.server


async def measure(
    predictor: Predictor,
    observations: NDArray[np.uint8],
    in_flight: int,
    seconds: float,
    server_cpu: Callable[[], float],
) -> Cost:
    """Keep calls in flight for some seconds."""
    end = time.monotonic() + seconds
    messages = 0

    async def ask() -> None:
        nonlocal messages
        while time.monotonic() < end:
            await predictor.predict(observations)
            messages += 1

    client_start, server_start, start = time.process_time(), server_cpu(), time.monotonic()
    await asyncio.gather(*(ask() for _ in range(in_flight)))
    wall = time.monotonic() - start
    return Cost(
        1e6 * (time.process_time() - client_start) / messages,
        1e6 * (server_cpu() - server_start) / messages,
        messages / wall,
    )


async def measure_all(
    arguments: argparse.Namespace, port: int, server_cpu: Callable[[], float]
) -> dict[int, list[Cost]]:
    """Every batch size in turn, as often as there are rounds."""
    width = games.spec(arguments.game).observation_bytes
    costs: dict[int, list[Cost]] = {rows: [] for rows in arguments.batch}
    async with rpc.InferenceClient(f"127.0.0.1:{port}") as client, client.stream(RUN) as stream:
        for _ in range(arguments.rounds):
            for rows, found in costs.items():
                observations = np.zeros((rows, width), np.uint8)
                found.append(
                    await measure(
                        stream, observations, arguments.in_flight, arguments.seconds, server_cpu
                    )
                )
    return costs


def run(arguments: argparse.Namespace) -> None:
    """Start the server, measure, print."""
    command = [sys.executable, "-m", "bench.serve", "--serve", "--game", arguments.game]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            port = int(process.stdout.readline()) if process.stdout else 0
            watched = psutil.Process(process.pid)
            costs = asyncio.run(measure_all(arguments, port, lambda: sum(watched.cpu_times()[:2])))
        finally:
            process.kill()
    print("CPU microseconds of a message, and of a position:")
    print(" batch   client   server      sum  us/position      tax  messages/s")
    for rows, found in costs.items():
        cost = min(found, key=lambda cost: cost.total)
        print(
            f"{rows:>6} {cost.client:>8.0f} {cost.server:>8.0f} {cost.total:>8.0f} "
            f"{cost.total / rows:>12.2f} {cost.total / rows / SMALL_NETWORK_MICROSECONDS:>8.2%} "
            f"{max(c.messages_per_s for c in found):>11.0f}"
        )


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description="CPU cost of the wire per message and position.")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--game", default="connect_four")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 64, 256, 1024])
    parser.add_argument("--in-flight", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(arguments.game))
    else:
        run(arguments)


if __name__ == "__main__":
    main()
