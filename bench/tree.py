"""Measure the speed and the memory of the search tree, with a network that costs nothing.

``python -m bench.tree connect_four`` searches with a uniform policy and the value 0 everywhere. It
has no prediction cache and no tree reuse, and 100 or 800 simulations for each move.

``--core`` also runs the core's program ``tree_ceiling``, if it is built. The difference is the cost
of Python. ``--memory`` measures the memory of a worker process instead.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from zerofleet_core import EngineStatistics, SearchConfig, SelfPlay

from bench import blocks as measured
from bench.blocks import Counts
from bench.play import openings
from bench.predictors import NoNetwork
from bench.processes import cpu_clock
from bench.report import Row, parser, positive, run_main, show
from bench.worker_memory import WorkerSize, worker_memory
from bench.workloads import Workload
from zerofleet.errors import ConfigError

MEASURED_TREES = 32  # trees whose memory is measured
BUILDS = Path(__file__).resolve().parents[1] / "core" / "build"
COLUMNS = {
    "path": ("path", ""),
    "simulations": ("simulations", ",d"),
    "simulations/CPU-s": ("simulations_per_cpu_second", ",d"),
    "positions/simulation": ("positions_per_simulation", ".2f"),
    "nodes/tree": ("nodes_of_tree", ",d"),
    "edges/node": ("edges_per_node", ".1f"),
    "bytes/node": ("bytes_per_node", ".0f"),
    "bytes/edge": ("bytes_per_edge", ".0f"),
    "bytes/tree": ("bytes_of_tree", ",d"),
}
MEMORY_COLUMNS = {
    "games": ("games", ",d"),
    "simulations": ("simulations", ",d"),
    "MiB": ("resident_mib", ",d"),
    "peak MiB": ("most_resident_mib", ",d"),
    "KiB/game": ("kib_per_game", ",.0f"),
    "simulations played": ("simulations_played", ",d"),
}
_CORE_OUTPUT = re.compile(r"([\d.]+) M simulations/CPU-s, ([\d.]+) positions each")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print a row for each number of simulations, or a row for a worker process."""
    options = parse(argv)
    workload: Workload = options.workload
    if options.memory:
        size = WorkerSize(options.games or 512, (options.simulations or [800])[-1])
        row = worker_memory(workload, size, plies=options.plies)
        show([row], f"{workload.name}, one worker", MEMORY_COLUMNS, as_json=options.json)
        return
    games, simulations = options.games or 64, options.simulations or [100, 800]
    rows = asyncio.run(measure(workload, games, simulations, options))
    if options.core:
        rows += [core_program(workload, games, each, options.core) for each in simulations]
    show(rows, f"{workload.name}, {games} games, no network", COLUMNS, as_json=options.json)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    command_line = parser("bench.tree", __doc__)
    command_line.add_argument(
        "--simulations",
        type=positive(int),
        nargs="+",
        help="simulations for each move [100 800; with --memory 800]",
    )
    command_line.add_argument(
        "--games", type=positive(int), help="concurrent games [64; with --memory 512]"
    )
    command_line.add_argument(
        "--core",
        nargs="?",
        const="",
        type=built,
        metavar="PROGRAM",
        help="also run the core's tree_ceiling [the newest one under core/build]",
    )
    command_line.add_argument(
        "--memory", action="store_true", help="measure the resident memory of a worker process"
    )
    command_line.add_argument(
        "--plies",
        type=positive(int),
        default=3,
        help="with --memory: average plies of each game before the measurement [3]",
    )
    return command_line.parse_args(argv)


async def measure(
    workload: Workload, games: int, simulations: Sequence[int], options: argparse.Namespace
) -> list[Row]:
    """Interleave blocks of all numbers of simulations, then measure the memory of some trees.

    Args:
        workload: the game.
        games: concurrent games.
        simulations: numbers of simulations for each move.
        options: the command line.

    Returns:
        A row for each number of simulations.
    """
    trees = {str(each): TreeAlone(workload, games, each) for each in simulations}
    done = await measured.interleave(
        {name: tree.block for name, tree in trees.items()},
        options.seconds,
        options.blocks,
        cpu_clock(),
    )
    rows: list[Row] = []
    for name, mine in done.items():
        positions, total = (measured.total(mine, what) for what in ("positions", "simulations"))
        rate: Row = {
            "bench": "tree",
            "game": workload.name,
            "path": "python",
            "simulations": int(name),
            "games": games,
            "simulations_per_cpu_second": round(measured.per_cpu_second(mine, "simulations")),
            "positions_per_simulation": round(positions / max(total, 1), 3),
        }
        rows.append(rate | tree_memory(workload, int(name)))
    return rows


class TreeAlone:
    """An engine with a network that costs nothing; its policy is uniform and its value 0.

    Args:
        workload: the game.
        games: concurrent games.
        simulations: simulations for each move.
        seed: seed of the engine and of the openings.
    """

    def __init__(self, workload: Workload, games: int, simulations: int, seed: int = 7) -> None:
        config = SearchConfig(num_simulations=simulations, cache_positions=0, reuse_tree=False)
        self._engine = SelfPlay(workload.game, games, config, seed)
        self._network = NoNetwork(workload.spec.num_actions, games)
        for game in openings(workload, games, seed=seed):
            self._engine.adopt(game)

    async def block(self, seconds: float) -> Counts:
        """Search for at least this time; return the number of ``simulations`` and ``positions``."""
        before, end = self._engine.statistics, time.monotonic() + seconds
        while time.monotonic() < end:
            self.turn()
        after = self._engine.statistics
        return {
            "simulations": after.simulations - before.simulations,
            "positions": after.positions_evaluated - before.positions_evaluated,
        }

    @property
    def statistics(self) -> EngineStatistics:
        """Statistics of the engine."""
        return self._engine.statistics

    def turn(self) -> None:
        """Select a leaf in every game and back up its prediction."""
        policy_logits, value = self._network.run(self._engine.select())
        self._engine.backup(policy_logits, value, 1)
        self._engine.take_finished()


def tree_memory(workload: Workload, simulations: int) -> Row:
    """Return the bytes of a node, an edge and a full tree, with reserved memory.

    Each tree has an engine of its own, because an engine only reports the sum over its trees, and
    different games have full trees at different times.
    """
    trees = [fullest_tree(workload, simulations, seed) for seed in range(MEASURED_TREES)]
    nodes, edges = sum(tree.nodes for tree in trees), sum(tree.edges for tree in trees)
    return {
        "nodes_of_tree": round(nodes / len(trees)),
        "bytes_of_tree": round(sum(tree.tree_bytes for tree in trees) / len(trees)),
        "edges_per_node": round(edges / nodes, 2),
        "bytes_per_node": round(sum(tree.node_bytes for tree in trees) / nodes, 1),
        "bytes_per_edge": round(sum(tree.edge_bytes for tree in trees) / edges, 1),
    }


def fullest_tree(workload: Workload, simulations: int, seed: int) -> EngineStatistics:
    """Return the statistics of one game's tree at its largest within two plies.

    Args:
        workload: the game.
        simulations: simulations for each move.
        seed: seed of the opening, which may end anywhere in the game.
    """
    tree = TreeAlone(workload, 1, simulations, seed)
    fullest = tree.statistics
    while tree.statistics.plies < 2:
        tree.turn()
        if tree.statistics.nodes > fullest.nodes:
            fullest = tree.statistics
    return fullest


def built(name: str) -> Path:
    """Return the path of the core's program ``tree_ceiling``.

    Args:
        name: path of the program; empty: the newest one that is built.

    Raises:
        ArgumentTypeError: there is none.
    """
    found = [Path(name)] if name else sorted(BUILDS.glob("*/tree_ceiling"), key=_age)
    if not found or not found[0].is_file():
        where = f"at {name}" if name else f"under {BUILDS}"
        raise argparse.ArgumentTypeError(
            f"there is no tree_ceiling {where}: build it with cd core && cmake --preset release && "
            "cmake --build --preset release --target tree_ceiling"
        )
    return found[0].resolve()


def _age(path: Path) -> float:
    return -path.stat().st_mtime


def core_program(workload: Workload, games: int, simulations: int, program: Path) -> Row:
    """Return the row of the same search without Python.

    Args:
        workload: the game.
        games: concurrent games.
        simulations: simulations for each move.
        program: path of ``tree_ceiling``.

    Raises:
        ConfigError: the program is not ``tree_ceiling``.
    """
    command = [str(program), workload.game, str(games), str(simulations)]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = _CORE_OUTPUT.search(output)
    if found is None:
        raise ConfigError(
            f"{program} is not tree_ceiling of this version; it printed {output[:200]!r}"
        )
    return {
        "bench": "tree",
        "game": workload.name,
        "path": "core",
        "simulations": simulations,
        "games": games,
        "simulations_per_cpu_second": round(float(found[1]) * 1e6),
        "positions_per_simulation": float(found[2]),
    }


if __name__ == "__main__":
    run_main(main)
