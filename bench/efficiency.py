"""Compare self-play over gRPC, self-play in one process, and ONNX Runtime alone.

``python -m bench.efficiency connect_four`` alternates blocks of the paths, with the same model. It
prints the median positions per CPU second, counted over all processes. The paths:

- ``raw``: ONNX Runtime alone, at its best batch size.
- ``inprocess``: self-play with the session in the same process, behind the ``Predictor`` interface.
- ``grpc``: self-play over one stream to a server process with the service's own batcher.
- ``grpc_unary``: the same with one call for each batch.

The prediction cache and tree reuse are off, so each simulation needs one prediction, except for
terminal leaves. ``--reuse`` turns both on. ``--workers N`` adds the path ``workers``: N processes
that play over gRPC at the same time, because one client cannot keep a GPU busy.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from bench import blocks as measured
from bench.blocks import Block
from bench.children import Child, serving
from bench.efficiency_paths import Setting, Workers, self_play
from bench.games_played import random_positions
from bench.model_file import model_bytes
from bench.play import PLAY_VERSION
from bench.predictors import SessionPredictor
from bench.processes import cpu_clock
from bench.providers import MAX_BATCH_ROWS, PROVIDERS, provider_of
from bench.raw import RAW_BATCHES, Raw
from bench.report import Row, parser, positive, run_main, show
from bench.serve_file import RUN
from bench.workloads import Workload
from zerofleet.client import AsyncModel
from zerofleet.models.session import open_session
from zerofleet.prediction import PRECISIONS

COLUMNS = {
    "path": ("path", ""),
    "positions/CPU-s": ("positions_per_cpu_second", ",d"),
    "ratio to raw": ("ratio_to_raw", ".3f"),
    "ratio to in-process": ("ratio_to_inprocess", ".3f"),
    "simulations/CPU-s": ("simulations_per_cpu_second", ",d"),
    "sim./position": ("simulations_per_position", ".2f"),
    "positions/s": ("positions_per_second", ",d"),
    "games/h": ("games_per_hour", ",d"),
    "batch": ("batch_mean", ".0f"),
    "fill": ("batch_fill", ".0%"),
    "queue wait, ms": ("queue_wait_ms", ".2f"),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure all paths, and print a row for each."""
    options = parse(argv)
    rows = asyncio.run(measure(options.workload, options))
    what = f"{options.workload.name}, {options.model or options.workload.network_name}"
    title = f"{what}, {options.precision}{', with cache and tree reuse' if options.reuse else ''}"
    show(rows, title, COLUMNS, as_json=options.json)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    found = parser("bench.efficiency", __doc__)
    found.set_defaults(seconds=1.8)
    found.add_argument(
        "--precision", choices=PRECISIONS, default="fp32", help="precision of the model [fp32]"
    )
    found.add_argument("--model", type=Path, help="model file in fp32 [random weights]")
    found.add_argument(
        "--simulations", type=positive(int), help="simulations per move [the game's workload]"
    )
    found.add_argument(
        "--games", type=positive(int), help="games per engine [256; tic_tac_toe: 512]"
    )
    found.add_argument("--engines", type=positive(int), default=2, help="engines per process [2]")
    found.add_argument("--sessions", type=positive(int), default=1, help="model threads [1]")
    found.add_argument(
        "--provider", choices=PROVIDERS, default="cpu", help="execution provider [cpu]"
    )
    found.add_argument("--workers", type=positive(int), help="also play in this many processes")
    found.add_argument("--reuse", action="store_true", help="turn on the cache and tree reuse")
    return found.parse_args(argv)


def setting_of(workload: Workload, options: argparse.Namespace) -> Setting:
    """Return the settings of self-play: the options, and where they are unset the workload's."""
    return Setting(
        workload,
        options.simulations or workload.simulations,
        options.reuse,
        options.games or workload.games,
        options.engines,
    )


async def measure(workload: Workload, options: argparse.Namespace) -> list[Row]:
    """Run the blocks of all paths in turn.

    Returns:
        A row for each path.

    Raises:
        ChildGoneError: the server or a worker process has ended.
    """
    model = model_bytes(workload, options.precision, options.model)
    setting = setting_of(workload, options)
    provider = provider_of(options.provider)
    session = open_session(model, workload.spec, provider)
    raw = Raw(session, random_positions(workload.game, max(RAW_BATCHES), seed=1))
    # The batch size should be best for the scarce resource. With a GPU, that is not CPU time.
    raw.choose_batch(options.seconds / 8, time.monotonic if provider.is_gpu else time.process_time)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        path = Path(folder) / "model.onnx"
        path.write_bytes(model)
        server, address = stack.enter_context(
            serving(workload.game, path, options.sessions, options.provider)
        )
        remote = AsyncModel(address, RUN, message_rows=setting.games)  # a call for each batch
        remote = await stack.enter_async_context(remote)
        stream = await stack.enter_async_context(remote.stream())
        works = {
            "raw": raw.block,
            "inprocess": self_play(setting, SessionPredictor(session, PLAY_VERSION)),
            "grpc": self_play(setting, stream, server),
            "grpc_unary": self_play(setting, remote, server),
        }
        children: Sequence[Child] = ()
        if options.workers:
            workers = stack.enter_context(Workers(setting, address, options.workers, server))
            children, works["workers"] = workers.children, workers.block
        pids = {f"worker {number}": child.pid for number, child in enumerate(children)}
        done = await measured.interleave(
            works, options.seconds, options.blocks, cpu_clock({"server": server.pid, **pids})
        )
    about = {
        "bench": "efficiency",
        "game": workload.name,
        "network": str(options.model or workload.network_name),
        "precision": options.precision,
        "provider": options.provider,
        "reuse": options.reuse,
        "games": setting.games,
    }
    return [about | summary(name, done, setting) for name in done]


def summary(path: str, done: Mapping[str, list[Block]], setting: Setting) -> Row:
    """Return the row of a path: medians over its blocks, and ratios to other paths turn by turn.

    Args:
        path: name of the path.
        done: the blocks of all paths.
        setting: how the games were played.
    """
    mine = done[path]
    used = sum(block.all_cpu_s for block in mine)
    row: Row = {
        "path": path,
        "positions_per_cpu_second": round(measured.per_cpu_second(mine, "positions")),
        "simulations_per_cpu_second": round(measured.per_cpu_second(mine, "simulations")),
        "ratio_to_raw": round(measured.ratio(mine, done["raw"], "positions"), 3),
        "batch_mean": round(batch_mean(mine), 1),
        "positions_per_second": round(measured.per_second(mine, "positions")),
        "wall_ratio_to_raw": round(
            measured.ratio(mine, done["raw"], "positions", measured.per_second), 3
        ),
        "server_cpu_share": round(sum(block.cpu_s["server"] for block in mine) / used, 3),
    }
    if path != "raw":
        row |= of_self_play(mine, done["inprocess"], setting)
    if "server_rows" in mine[0].counts:
        waited_ms = measured.total(mine, "server_queue_ns") / 1e6
        row["batch_fill"] = round(batch_mean(mine) / MAX_BATCH_ROWS, 3)
        row["queue_wait_ms"] = round(waited_ms / max(measured.total(mine, "server_success"), 1), 3)
    return row


def batch_mean(blocks: Sequence[Block]) -> float:
    """Return the mean rows per batch that the model computed, by the server's counters if any."""
    served = "server_rows" in blocks[0].counts
    rows, batches = ("server_rows", "server_executions") if served else ("positions", "batches")
    return measured.total(blocks, rows) / max(measured.total(blocks, batches), 1)


def of_self_play(mine: Sequence[Block], inprocess: Sequence[Block], setting: Setting) -> Row:
    """Return the figures that only paths with a search have.

    ``games_per_hour`` needs the new simulations of a ply. Without tree reuse, that is
    ``setting.simulations``. With tree reuse it is measured, and left out until the blocks have at
    least one ply for each game.
    """
    simulations, plies = (measured.total(mine, what) for what in ("simulations", "plies"))
    positions = max(measured.total(mine, "positions"), 1)
    row: Row = {
        "ratio_to_inprocess": round(measured.ratio(mine, inprocess, "positions"), 3),
        "simulations_per_position": round(simulations / positions, 3),
    }
    ply_simulations = setting.simulations
    if setting.reuse:
        enough = plies >= setting.games * setting.engines
        ply_simulations = simulations / plies if enough else None
    if ply_simulations is not None:
        plies_an_hour = 3600 * measured.per_second(mine, "simulations") / ply_simulations
        row["games_per_hour"] = round(plies_an_hour / setting.workload.plies)
        row["plies_of_game"] = setting.workload.plies
    return row


if __name__ == "__main__":
    run_main(main)
