"""Measure how much visitors who analyse on the dashboard slow self-play down.

``python -m bench.visitors GAME`` runs a self-play worker with an inference server. Blocks of
self-play alone alternate with blocks in which visitors analyse without a pause. The visitors stay
within the limits of ``zerofleet.services.dashboard``: together they have a quota of simulations
per minute, and a few searches at the same time.

- ``ratio``: self-play's positions per second, with visitors to without.
- ``CPU ratio``: the same for positions per CPU-second of worker and server together.
- ``us/simulation``: CPU time that self-play loses for each of the visitors' simulations.
- ``share of a core``: that loss if the visitors use all their simulations.

On a busy machine, with less than a core for all of this, only the last two are meaningful.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from bench import blocks as measured
from bench.blocks import Block, Counts
from bench.children import serving
from bench.efficiency_paths import Setting, Workers
from bench.model_file import model_bytes
from bench.processes import cpu_clock
from bench.report import Row, parser, positive, run_main, show
from bench.serve_file import RUN
from bench.workloads import Workload
from zerofleet.client import AsyncPlayer
from zerofleet.errors import OverloadedError
from zerofleet.prediction import PRECISIONS
from zerofleet.services.dashboard.settings import DashboardSettings
from zerofleet.services.dashboard.visitors import Allowance, Visitor, VisitorPlayer

_RETRY_SECONDS = 1.0
_TABLE_SECONDS = 0.3  # between two tables of a search, as on the dashboard
COLUMNS = {
    "path": ("path", ""),
    "positions/s": ("positions_per_second", ",d"),
    "ratio": ("ratio", ".3f"),
    "positions/CPU-s": ("positions_per_cpu_second", ",d"),
    "CPU ratio": ("ratio_by_cpu", ".3f"),
    "visitors' simulations/s": ("simulations_per_second", ",d"),
    "us/simulation": ("us_per_simulation", ",.0f"),
    "share of a core": ("of_a_core", ".1%"),
    "server, CPU-s/s": ("server_cpu", ".2f"),
    "visitors, CPU-s/s": ("visitors_cpu", ".2f"),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print a row without and a row with visitors."""
    options = parse(argv)
    workload: Workload = options.workload
    rows = asyncio.run(measure(workload, options))
    title = f"{workload.name}, {workload.network_name}, {options.visitors} visitors"
    show(rows, title, COLUMNS, as_json=options.json)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    command_line = parser("bench.visitors", __doc__)
    command_line.set_defaults(seconds=5.0)
    limits = DashboardSettings.model_fields
    command_line.add_argument(
        "--visitors", type=positive(int), default=20, help="number of visitors [20]"
    )
    command_line.add_argument(
        "--simulations", type=positive(int), default=800, help="simulations of one search [800]"
    )
    command_line.add_argument(
        "--searches",
        type=positive(int),
        default=limits["dashboard_searches"].default,
        help="concurrent searches of all visitors [the dashboard's default, %(default)s]",
    )
    command_line.add_argument(
        "--per-minute",
        type=positive(int),
        default=limits["dashboard_all_simulations"].default,
        help="simulations per minute of all visitors [the dashboard's default, %(default)s]",
    )
    command_line.add_argument(
        "--precision", choices=PRECISIONS, default="fp32", help="precision of the model [fp32]"
    )
    return command_line.parse_args(argv)


async def measure(workload: Workload, options: argparse.Namespace) -> list[Row]:
    """Interleave self-play alone and self-play with visitors; return a row for each.

    Args:
        workload: the game and the network.
        options: the command line.
    """
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        file = Path(folder) / "model.onnx"
        file.write_bytes(model_bytes(workload, options.precision))
        server, address = stack.enter_context(serving(workload.game, file))
        setting = Setting(workload, workload.simulations, True, workload.games, 2)
        workers = stack.enter_context(Workers(setting, address, 1, server))
        player = await stack.enter_async_context(AsyncPlayer(address, run=RUN))
        visitors = Visitors(player, options)

        async def visited(seconds: float) -> Counts:
            return await visitors.block(workers, seconds)

        pids = {"server": server.pid, "worker": workers.children[0].pid}
        done = await measured.interleave(
            {"alone": workers.block, "visited": visited},
            options.seconds,
            options.blocks,
            cpu_clock(pids),
        )
    about: Row = {"bench": "visitors", "game": workload.name, "visitors": options.visitors}
    return [about | summary(name, done, options.per_minute) for name in done]


class Visitors:
    """Visitors who start the next search as soon as one ends.

    Args:
        player: client of the server.
        options: the command line, with the number of visitors and their limits.
    """

    def __init__(self, player: AsyncPlayer, options: argparse.Namespace) -> None:
        self._seconds = 0.0  # total length of their earlier blocks
        self._began: float | None = None  # start of the current block
        everybody = Allowance(options.per_minute, self._clock, searches=options.searches)
        # The quota starts with a minute's worth, which would hide the steady state.
        everybody.take(options.per_minute)
        self._players = [
            VisitorPlayer(
                player,
                Visitor(f"visitor {number}", "client", Allowance(options.per_minute)),
                everybody,
                options.simulations,
            )
            for number in range(options.visitors)
        ]
        self._made = 0

    async def block(self, workers: Workers, seconds: float) -> Counts:
        """Let all visitors analyse during a block of self-play.

        Returns:
            The counts of self-play, and ``visitors_simulations``.
        """
        self._made, self._began = 0, time.monotonic()
        searches = [asyncio.create_task(self._analyse(player)) for player in self._players]
        try:
            counts = await asyncio.to_thread(asyncio.run, workers.block(seconds))
        finally:
            for search in searches:
                search.cancel()
            await asyncio.gather(*searches, return_exceptions=True)
            self._seconds, self._began = self._clock(), None
        return {**counts, "visitors_simulations": self._made}

    def _clock(self) -> float:
        """Return the seconds in which they analysed.

        The quota does not grow between their blocks, because this clock stands still.
        """
        return self._seconds + (0.0 if self._began is None else time.monotonic() - self._began)

    async def _analyse(self, player: VisitorPlayer) -> None:
        while True:
            made = 0
            try:
                analysis = player.analyze(every_seconds=_TABLE_SECONDS)
                async with contextlib.aclosing(analysis) as tables:
                    async for table in tables:
                        self._made += table.simulations - made
                        made = table.simulations
            except OverloadedError:
                await asyncio.sleep(_RETRY_SECONDS)


def summary(path: str, done: Mapping[str, list[Block]], per_minute: int) -> Row:
    """Return the fields of a path, with medians over its blocks.

    Ratios compare each block with the block of self-play alone in the same round.

    Args:
        path: name of the path.
        done: blocks of each path without the warm-up.
        per_minute: simulations per minute of all visitors.
    """
    mine, alone = done[path], done["alone"]
    wall = sum(block.wall_s for block in mine)
    made = sum(block.counts.get("visitors_simulations", 0.0) for block in mine)
    lost = sum(
        one.cpu_s["server"]
        + one.cpu_s["worker"]
        - one.counts["positions"] / _per_cpu_second([other])
        for one, other in zip(mine, alone, strict=True)
    )
    each = lost / made if made else None  # CPU-seconds
    return {
        "path": path,
        "positions_per_second": round(measured.per_second(mine, "positions")),
        "ratio": measured.ratio(mine, alone, "positions", measured.per_second),
        "positions_per_cpu_second": round(_per_cpu_second(mine)),
        "ratio_by_cpu": statistics.median(
            _per_cpu_second([one]) / _per_cpu_second([other])
            for one, other in zip(mine, alone, strict=True)
        ),
        "simulations_per_second": round(made / wall),
        "us_per_simulation": None if each is None else 1e6 * each,
        "of_a_core": None if each is None else each * per_minute / 60,
        "server_cpu": sum(block.cpu_s["server"] for block in mine) / wall,
        "visitors_cpu": sum(
            block.all_cpu_s - block.cpu_s["server"] - block.cpu_s["worker"] for block in mine
        )
        / wall,
    }


def _per_cpu_second(blocks: Sequence[Block]) -> float:
    return statistics.median(
        block.counts["positions"] / (block.cpu_s["server"] + block.cpu_s["worker"])
        for block in blocks
    )


if __name__ == "__main__":
    run_main(main)
