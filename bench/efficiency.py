"""Self-play over gRPC, self-play in process, and ONNX Runtime alone: the same model, one run.

``python -m bench.efficiency connect_four`` interleaves blocks of the three paths, takes the median
of each and prints positions per CPU-second of all processes together. The paths:

- ``raw``: ONNX Runtime alone, batches of the size that self-play sends.
- ``inprocess``: self-play with the session behind the same ``Predictor`` interface.
- ``grpc``: self-play over one stream to a server process with the service's own batcher.

Prediction cache and kept tree are off, so that each path asks for one prediction a simulation
(terminal leaves aside); ``--reuse`` puts them back.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from zerofleet_core import SearchConfig, SelfPlay

from bench.serve_file import RUN
from zerofleet import games
from zerofleet.config import NetworkSection
from zerofleet.models.session import ModelSession
from zerofleet.prediction import Prediction, Predictor
from zerofleet.rpc import InferenceClient

# The networks and simulations that the field's other systems were measured with.
SETTINGS = {"connect_four": (5, 64, 100), "tic_tac_toe": (2, 32, 50)}
GAMES_PER_ENGINE = 256


@dataclass(frozen=True)
class Block:
    """What one block of one path did."""

    positions: int
    simulations: int
    batches: int
    wall_s: float
    cpu_s: float


class SessionPredictor:
    """A ``Predictor`` in this process."""

    def __init__(self, session: ModelSession) -> None:
        self._session = session

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Predict at once."""
        return Prediction(*self._session.run(observations), model_version=1)


class Play:
    """Two engines of self-play that keep their games between blocks."""

    def __init__(self, game: str, config: SearchConfig) -> None:
        self._engines = [SelfPlay(game, GAMES_PER_ENGINE, config, seed) for seed in (1, 2)]
        self._batches = 0

    async def block(self, predictor: Predictor, seconds: float) -> tuple[int, int, int]:
        """Play for a while; positions, simulations and batches of it."""
        before = self._totals()
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            for engine in self._engines:
                group.create_task(self._play(engine, predictor, end))
        after = self._totals()
        return after[0] - before[0], after[1] - before[1], after[2] - before[2]

    async def _play(self, engine: SelfPlay, predictor: Predictor, end: float) -> None:
        while time.monotonic() < end:
            observations = engine.select()
            if len(observations) > 0:
                answer = await predictor.predict(observations)
                engine.backup(answer.policy_logits, answer.value, answer.model_version)
                self._batches += 1
            engine.take_finished()

    def _totals(self) -> tuple[int, int, int]:
        figures = [engine.statistics for engine in self._engines]
        positions = sum(figure.positions_evaluated for figure in figures)
        return positions, sum(figure.simulations for figure in figures), self._batches


def main() -> None:
    """Measure and print."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # else it tells of the server's end
    arguments = parse()
    blocks, channels, simulations = SETTINGS[arguments.game]
    network = NetworkSection(blocks=blocks, channels=channels)
    results = asyncio.run(
        measure(arguments.game, network, arguments.simulations or simulations, arguments)
    )
    if arguments.json:
        for row in results:
            print(json.dumps(row))
    else:
        show(arguments.game, network, results)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.efficiency", description=__doc__)
    parser.add_argument("game", choices=sorted(SETTINGS))
    parser.add_argument("--simulations", type=int, help="for each move")
    parser.add_argument("--seconds", type=float, default=4.0, help="of a block")
    parser.add_argument("--blocks", type=int, default=5, help="of each path")
    parser.add_argument("--sessions", type=int, default=1, help="model threads of the server")
    parser.add_argument("--reuse", action="store_true", help="with cache and kept tree")
    parser.add_argument("--json", action="store_true", help="one object a line")
    return parser.parse_args()


async def measure(
    game: str, network: NetworkSection, simulations: int, arguments: argparse.Namespace
) -> list[dict[str, object]]:
    """Interleave the blocks of the three paths."""
    spec = games.spec(game)
    model_bytes = random_model(game, network)
    session = ModelSession(model_bytes, spec)
    cache = 200_000 if arguments.reuse else 0
    config = SearchConfig(
        num_simulations=simulations, reuse_tree=arguments.reuse, cache_positions=cache
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model_bytes)
        with server(game, path, arguments.sessions) as process:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            async with (
                InferenceClient(f"127.0.0.1:{port}") as client,
                client.stream(RUN) as stream,
            ):
                local = SessionPredictor(session)
                near, far = Play(game, config), Play(game, config)
                paths: dict[str, Callable[[], Awaitable[tuple[int, int, int]]]] = {
                    "raw": lambda: raw(session, spec.observation_bytes, arguments.seconds),
                    "inprocess": lambda: near.block(local, arguments.seconds),
                    "grpc": lambda: far.block(stream, arguments.seconds),
                }
                taken: dict[str, list[Block]] = {name: [] for name in paths}
                for turn in range(arguments.blocks + 1):
                    for name, play in paths.items():
                        block = await timed(play, process.pid)
                        if turn > 0:  # the first of each warms up
                            taken[name].append(block)
            process.communicate()
    return [summary(game, name, taken[name], taken["raw"]) for name in taken]


async def raw(session: ModelSession, width: int, seconds: float) -> tuple[int, int, int]:
    """ONNX Runtime alone, in batches as large as self-play's."""
    observations = np.random.default_rng(1).integers(0, 256, (GAMES_PER_ENGINE, width), np.uint8)
    end, batches = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        session.run(observations)
        batches += 1
    return batches * GAMES_PER_ENGINE, 0, batches


async def timed(play: Callable[[], Awaitable[tuple[int, int, int]]], server_pid: int) -> Block:
    """Run a block and count the CPU time of this process and of the server."""
    wall, cpu = time.monotonic(), time.process_time() + cpu_seconds(server_pid)
    positions, simulations, batches = await play()
    used = time.process_time() + cpu_seconds(server_pid) - cpu
    return Block(positions, simulations, batches, time.monotonic() - wall, used)


def summary(
    game: str, path: str, blocks: list[Block], raw_blocks: list[Block]
) -> dict[str, object]:
    """Medians over the blocks, and the median of the ratios turn by turn."""
    rate = [block.positions / block.cpu_s for block in blocks]
    ratios = [
        mine / (raw.positions / raw.cpu_s) for mine, raw in zip(rate, raw_blocks, strict=True)
    ]
    return {
        "game": game,
        "path": path,
        "precision": "fp32",
        "positions_per_cpu_s": round(statistics.median(rate)),
        "simulations_per_cpu_s": round(
            statistics.median(block.simulations / block.cpu_s for block in blocks)
        ),
        "ratio_to_raw": round(statistics.median(ratios), 3),
        "batch_mean": round(
            sum(block.positions for block in blocks) / sum(block.batches for block in blocks), 1
        ),
        "positions_per_s": round(
            statistics.median(block.positions / block.wall_s for block in blocks)
        ),
        "blocks": [asdict(block) for block in blocks],
    }


def show(game: str, network: NetworkSection, results: list[dict[str, object]]) -> None:
    """A table for people."""
    table = Table(title=f"{game}, {network.blocks} blocks x {network.channels} channels, fp32")
    for column in (
        "path",
        "positions/CPU-s",
        "of raw",
        "simulations/CPU-s",
        "positions/s",
        "batch",
    ):
        table.add_column(column, justify="left" if column == "path" else "right")
    for row in results:
        table.add_row(
            str(row["path"]),
            f"{row['positions_per_cpu_s']:,}",
            f"{row['ratio_to_raw']:.3f}",
            f"{row['simulations_per_cpu_s']:,}",
            f"{row['positions_per_s']:,}",
            str(row["batch_mean"]),
        )
    Console(width=100).print(table)


def random_model(game: str, network: NetworkSection) -> bytes:
    """An exported network with its first weights: throughput is not strength."""
    from zerofleet.network import PolicyValueNet, export_onnx

    spec = games.spec(game)
    return export_onnx(PolicyValueNet(spec, network, seed=1), spec.observation_bytes, {})


def server(game: str, path: Path, sessions: int) -> subprocess.Popen[str]:
    """A server process; it ends when its standard input closes."""
    return subprocess.Popen(
        [sys.executable, "-m", "bench.serve_file", game, str(path), str(sessions)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
