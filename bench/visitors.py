"""Whether self-play keeps its speed while visitors of the page analyse.

``python -m bench.visitors GAME`` has one worker play against an inference server, in turns alone
and beside visitors who analyse without a pause, within what ``zerofleet.services.dashboard`` lets
them ask for: all together have so many simulations a minute and a few searches at once.

``ratio`` is of self-play's positions a second to those alone; ``by CPU`` the same for each
CPU-second of worker and server together. ``us/simulation`` is what self-play lacks of CPU for each
of the visitors' simulations, and ``of a core`` what that comes to when they use up their minute:
on a busy machine, which has less than a core for all of this, these two are what to look at.
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

_ASKS_AGAIN_SECONDS = 1.0
_TABLE_SECONDS = 0.3  # as the page asks for them
COLUMNS = {
    "path": ("path", ""),
    "positions/s": ("positions_per_second", ",d"),
    "ratio": ("ratio", ".3f"),
    "positions/CPU-s": ("positions_per_cpu_second", ",d"),
    "by CPU": ("ratio_by_cpu", ".3f"),
    "visitors' simulations/s": ("simulations_per_second", ",d"),
    "us/simulation": ("us_per_simulation", ",.0f"),
    "of a core": ("of_a_core", ".1%"),
    "server, CPU/s": ("server_cpu", ".2f"),
    "visitors, CPU/s": ("visitors_cpu", ".2f"),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parse(argv)
    workload: Workload = options.workload
    rows = asyncio.run(measure(workload, options))
    title = f"{workload.name}, {workload.network_name}, {options.visitors} visitors"
    show(rows, title, COLUMNS, as_json=options.json)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    found = parser("bench.visitors", __doc__)
    found.set_defaults(seconds=5.0)
    limits = DashboardSettings.model_fields
    found.add_argument("--visitors", type=positive(int), default=20, help="who analyse [20]")
    found.add_argument("--simulations", type=positive(int), default=800, help="of one [800]")
    found.add_argument(
        "--searches",
        type=positive(int),
        default=limits["dashboard_searches"].default,
        help="at once, of all visitors: as the dashboard's setting [%(default)s]",
    )
    found.add_argument(
        "--per-minute",
        type=positive(int),
        default=limits["dashboard_all_simulations"].default,
        help="simulations of all visitors: as the dashboard's setting [%(default)s]",
    )
    found.add_argument("--precision", choices=PRECISIONS, default="fp32")
    return found.parse_args(argv)


async def measure(workload: Workload, options: argparse.Namespace) -> list[Row]:
    """Self-play alone and beside visitors, in turn."""
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
            return await visitors.beside(workers, seconds)

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
    """People who analyse, each the next position as soon as one is done.

    Args:
        player: of the server.
        options: how many there are, and what they may ask for.
    """

    def __init__(self, player: AsyncPlayer, options: argparse.Namespace) -> None:
        self._seconds = 0.0  # in which they could ask
        self._began: float | None = None
        everybody = Allowance(options.per_minute, self._clock, searches=options.searches)
        everybody.take(options.per_minute)  # the savings are spent
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

    async def beside(self, workers: Workers, seconds: float) -> Counts:
        """All of them analyse while self-play goes on."""
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
        """Stands still while they are not there, so that nothing is saved up meanwhile."""
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
                await asyncio.sleep(_ASKS_AGAIN_SECONDS)


def summary(path: str, done: Mapping[str, list[Block]], per_minute: int) -> Row:
    """Medians over the blocks of a path, ratios turn by turn."""
    mine, alone = done[path], done["alone"]
    wall = sum(block.wall_s for block in mine)
    made = sum(block.counts.get("visitors_simulations", 0.0) for block in mine)
    lacks = sum(
        one.cpu_s["server"]
        + one.cpu_s["worker"]
        - one.counts["positions"] / _per_cpu_second([other])
        for one, other in zip(mine, alone, strict=True)
    )
    each = lacks / made if made else None
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
