"""The tree alone: simulations per CPU-second when the network costs nothing, and its memory.

``python -m bench.tree connect_four`` plays with answers that are even everywhere, without cache and
kept tree, at 100 and at 800 simulations of a move. ``--core`` runs the core's own program beside
it, if it is built, which shows what Python costs. ``--memory`` measures a worker process instead.
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

WEIGHED_TREES = 32
BUILDS = Path(__file__).resolve().parents[1] / "core" / "build"
COLUMNS = {
    "path": ("path", ""),
    "simulations": ("simulations", ",d"),
    "simulations/CPU-s": ("simulations_per_cpu_second", ",d"),
    "positions/simulation": ("positions_per_simulation", ".2f"),
    "nodes of a tree": ("nodes_of_tree", ",d"),
    "edges/node": ("edges_per_node", ".1f"),
    "bytes/node": ("bytes_per_node", ".0f"),
    "bytes/edge": ("bytes_per_edge", ".0f"),
    "bytes of a tree": ("bytes_of_tree", ",d"),
}
MEMORY_COLUMNS = {
    "games": ("games", ",d"),
    "simulations": ("simulations", ",d"),
    "MiB": ("resident_mib", ",d"),
    "most, MiB": ("most_resident_mib", ",d"),
    "KiB/game": ("kib_per_game", ",.0f"),
    "simulations played": ("simulations_played", ",d"),
}
_CORE_SAYS = re.compile(r"([\d.]+) M simulations/CPU-s, ([\d.]+) positions each")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
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
    """The command line."""
    found = parser("bench.tree", __doc__)
    found.add_argument("--simulations", type=positive(int), nargs="+", help="of a move [100 800]")
    found.add_argument("--games", type=positive(int), help="at once [64; with --memory 512]")
    found.add_argument(
        "--core",
        nargs="?",
        const="",
        type=built,
        metavar="PROGRAM",
        help="also run tree_ceiling [the newest under core/build]",
    )
    found.add_argument("--memory", action="store_true", help="resident memory of a worker process")
    found.add_argument("--plies", type=positive(int), default=3, help="--memory: of each game [3]")
    return found.parse_args(argv)


async def measure(
    workload: Workload, games: int, simulations: Sequence[int], options: argparse.Namespace
) -> list[Row]:
    """Interleave blocks of all numbers of simulations, then weigh some trees."""
    trees = {str(each): TreeAlone(workload, games, each) for each in simulations}
    done = await measured.interleave(
        {name: tree.block for name, tree in trees.items()},
        options.seconds,
        options.blocks,
        cpu_clock(),
    )
    rows: list[Row] = []
    for name, mine in done.items():
        positions, run = (measured.total(mine, what) for what in ("positions", "simulations"))
        rate: Row = {
            "bench": "tree",
            "game": workload.name,
            "path": "python",
            "simulations": int(name),
            "games": games,
            "simulations_per_cpu_second": round(measured.per_cpu_second(mine, "simulations")),
            "positions_per_simulation": round(positions / max(run, 1), 3),
        }
        rows.append(rate | weights(workload, int(name)))
    return rows


class TreeAlone:
    """An engine whose questions are answered at once with an even policy and value 0.

    Args:
        workload: whose game it plays.
        games: at once.
        simulations: of a move.
        seed: of the engine, and of the openings.
    """

    def __init__(self, workload: Workload, games: int, simulations: int, seed: int = 7) -> None:
        config = SearchConfig(num_simulations=simulations, cache_positions=0, reuse_tree=False)
        self._engine = SelfPlay(workload.game, games, config, seed)
        self._network = NoNetwork(workload.spec.num_actions, games)
        for game in openings(workload, games, seed=seed):
            self._engine.adopt(game)

    async def block(self, seconds: float) -> Counts:
        """Search for a while."""
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
        """Take every game to its next leaf and answer."""
        policy_logits, value = self._network.run(self._engine.select())
        self._engine.backup(policy_logits, value, 1)
        self._engine.take_finished()


def weights(workload: Workload, simulations: int) -> Row:
    """Measure the memory of a node, an edge and a full tree, including unused room.

    Each tree has an engine of its own here, for engines tell of all their trees together, and those
    of different games are not full at the same time.
    """
    trees = [fullest_tree(workload, simulations, seed) for seed in range(WEIGHED_TREES)]
    nodes, edges = sum(tree.nodes for tree in trees), sum(tree.edges for tree in trees)
    return {
        "nodes_of_tree": round(nodes / len(trees)),
        "bytes_of_tree": round(sum(tree.tree_bytes for tree in trees) / len(trees)),
        "edges_per_node": round(edges / nodes, 2),
        "bytes_per_node": round(sum(tree.node_bytes for tree in trees) / nodes, 1),
        "bytes_per_edge": round(sum(tree.edge_bytes for tree in trees) / edges, 1),
    }


def fullest_tree(workload: Workload, simulations: int, seed: int) -> EngineStatistics:
    """The tree of one game at its largest within two plies, begun anywhere in the game."""
    tree = TreeAlone(workload, 1, simulations, seed)
    fullest = tree.statistics
    while tree.statistics.plies < 2:
        tree.turn()
        if tree.statistics.nodes > fullest.nodes:
            fullest = tree.statistics
    return fullest


def built(name: str) -> Path:
    """The core's program: the one named, else the newest that is built.

    Raises:
        ArgumentTypeError: there is none.
    """
    found = [Path(name)] if name else sorted(BUILDS.glob("*/tree_ceiling"), key=_age)
    if not found or not found[0].is_file():
        where = name or f"under {BUILDS}"
        raise argparse.ArgumentTypeError(
            f"no tree_ceiling {where}: build it with cd core && cmake --preset release && "
            "cmake --build --preset release --target tree_ceiling"
        )
    return found[0].resolve()


def _age(path: Path) -> float:
    return -path.stat().st_mtime


def core_program(workload: Workload, games: int, simulations: int, program: Path) -> Row:
    """The same search without Python.

    Raises:
        ConfigError: the program is not ours.
    """
    command = [str(program), workload.game, str(games), str(simulations)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = _CORE_SAYS.search(said)
    if found is None:
        raise ConfigError(f"{program} does not say how fast it is but {said[:200]!r}")
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
