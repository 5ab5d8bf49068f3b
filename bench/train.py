"""The trainer against the same network in a bare loop: samples a second.

``python -m bench.train connect_four`` interleaves these paths, each with the trainer's threads:

- ``bare``: the network, torch's own SGD, one batch that is in memory; forward, loss, backward,
  step and nothing else.
- ``learner``: the trainer's learner on that same batch, by SGD too. On a GPU its step is a
  CUDA graph.
- ``eager``: the learner without a CUDA graph, only on a GPU.
- ``trainer``: the learner, each batch drawn from the window and rebuilt under random symmetries.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from zerofleet_core import ReplayBuffer

from bench import blocks as measured
from bench.blocks import Block, Counts, Work
from bench.games_played import played_games, run_of
from bench.processes import cpu_clock
from bench.report import Row, parser, positive, run_main, show
from bench.workloads import Workload
from zerofleet.config import NetworkSection, RunConfig
from zerofleet.learning import make_network
from zerofleet.learning.learner import Learner, Precision, Team
from zerofleet.learning.measurement import Batch
from zerofleet.learning.window import sample_seed
from zerofleet.network import Targets, data_losses
from zerofleet.records import GameRecord

COLUMNS = {
    "path": ("path", ""),
    "samples/s": ("samples_per_second", ",d"),
    "samples/CPU-s": ("samples_per_cpu_second", ",d"),
    "of bare": ("ratio_to_bare", ".3f"),
    "steps/s": ("steps_per_second", ".1f"),
    "page faults/step": ("page_faults_per_step", ",d"),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parse(argv)
    workload: Workload = options.workload
    if options.network is not None:
        workload = replace(workload, network=options.network)
    rows = asyncio.run(
        measure(
            workload,
            options.batch,
            options.games,
            options.seconds,
            options.blocks,
            options.prefetch,
        )
    )
    title = f"{workload.name}, {workload.network_name}, batches of {options.batch}"
    show(rows, title, COLUMNS, as_json=options.json)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    found = parser("bench.train", __doc__)
    found.set_defaults(seconds=2.0)
    found.add_argument("--batch", type=positive(int), default=256, help="positions [256]")
    found.add_argument("--games", type=positive(int), default=500, help="in the window [500]")
    found.add_argument(
        "--network", type=network_of, metavar="BLOCKSxCHANNELS", help="[the workload's]"
    )
    found.add_argument(
        "--prefetch", type=int, metavar="BATCHES", help="drawn ahead [0 on CPUs, 2 on a GPU]"
    )
    return found.parse_args(argv)


def network_of(name: str) -> NetworkSection:
    """Return the network of a name such as 4x48.

    Raises:
        ArgumentTypeError: it is no such name.
    """
    try:
        blocks, channels = map(int, name.split("x"))
        return NetworkSection(blocks=blocks, channels=channels)
    except ValueError as error:
        message = f"{name}: give blocks and channels, such as 4x48"
        raise argparse.ArgumentTypeError(message) from error


async def measure(
    workload: Workload,
    size: int,
    games: int,
    seconds: float,
    blocks: int,
    prefetch: int | None = None,
) -> list[Row]:
    """Interleave blocks of the paths."""
    run = run_of(workload, {"trainer": {"optimizer": "sgd", "learning_rate": [0.06]}})
    torch.set_num_threads(run.trainer.threads)  # as the trainer does
    window = window_of(workload, run, played_games(workload, games, seed=5))
    batch = window.sample(size, 1, symmetry=True)
    alone, fed = (Learner(workload.spec, run) for _ in range(2))

    def draw_batch(step: int) -> Batch:
        seed = sample_seed(run.seed, "train", step)
        return window.sample(size, seed, symmetry=run.trainer.augment)

    paths = {
        "bare": repeated(bare_step(workload, run, batch), size),
        "learner": repeated(lambda: alone.train(batch), size),
    }
    if fed.device.type == "cuda":
        eager = Learner(workload.spec, run, cuda_graph=False)
        paths["eager"] = repeated(lambda: eager.train(batch), size)
    with contextlib.closing(fed.batches(draw_batch, prefetch)) as batches:
        paths["trainer"] = repeated(lambda: fed.train(batches.take(fed.step)), size)
        done = await measured.interleave(paths, seconds, blocks, cpu_clock())
    return [summary(workload, path, done, size) for path in done]


def window_of(workload: Workload, run: RunConfig, records: Sequence[GameRecord]) -> ReplayBuffer:
    """A window with these games."""
    limits = run.trainer.window_positions, run.trainer.window_games
    window = ReplayBuffer(workload.game, *limits)
    for record in records:
        assert record.result is not None  # they were played to their ends
        window.add(
            record.columns.action,
            record.result,
            record.columns.full_search,
            record.columns.offsets,
            record.columns.legal_actions,
            record.columns.policy_weights,
            resigned=record.reason == "resign",
        )
    return window


def bare_step(workload: Workload, run: RunConfig, batch: Batch) -> Callable[[], None]:
    """One step of the loop that anybody would write first, on the same device in as many bits."""
    settings, device = run.trainer, Team().device
    network = make_network(workload.spec, run.network, run.seed).to(device).train()
    optimiser = torch.optim.SGD(
        network.parameters(),
        lr=settings.learning_rate[0],
        momentum=settings.momentum,
        weight_decay=2 * settings.l2,
    )
    observations, policy_target, value_target = (
        torch.from_numpy(column).to(device)  # pyright: ignore[reportUnknownMemberType]
        for column in batch
    )
    precision = Precision(settings.mixed_precision, device, run.network.channels)
    targets = Targets(policy_target, value_target, {})

    def step() -> None:
        optimiser.zero_grad()
        parts = data_losses(precision.predict(network.outputs, observations), targets)
        (parts["policy"] + parts["value"]).backward()
        optimiser.step()

    return step


def repeated(step: Callable[[], None], samples: int) -> Work:
    """A block of whole steps."""

    async def block(seconds: float) -> Counts:
        end, steps = time.monotonic() + seconds, 0
        faults = -resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        while steps == 0 or time.monotonic() < end:
            step()
            steps += 1
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        faults += resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        return {"samples": steps * samples, "steps": steps, "page_faults": faults}

    return block


def summary(workload: Workload, path: str, done: dict[str, list[Block]], size: int) -> Row:
    """Medians over the blocks of a path."""
    mine = done[path]
    return {
        "bench": "train",
        "game": workload.name,
        "network": workload.network_name,
        "batch": size,
        "path": path,
        "samples_per_second": round(measured.per_second(mine, "samples")),
        "samples_per_cpu_second": round(measured.per_cpu_second(mine, "samples")),
        "ratio_to_bare": round(measured.ratio(mine, done["bare"], "samples"), 3),
        "wall_ratio_to_bare": round(
            measured.ratio(mine, done["bare"], "samples", measured.per_second), 3
        ),
        "steps_per_second": round(measured.per_second(mine, "steps"), 2),
        "page_faults_per_step": round(
            measured.total(mine, "page_faults") / measured.total(mine, "steps")
        ),
    }


if __name__ == "__main__":
    run_main(main)
