"""Compare the trainer's samples per second with a bare training loop.

``python -m bench.train connect_four`` interleaves these paths, each with the trainer's threads:

- ``bare``: the network and torch's SGD on one batch in memory. A step is the forward pass, the
  loss, the backward pass and the update, and nothing else.
- ``learner``: the trainer's learner on the same batch, also with SGD. On a GPU its step is a CUDA
  graph.
- ``eager``: the learner without a CUDA graph, only on a GPU.
- ``trainer``: the learner on batches that are drawn from the window, with random symmetries.
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
    "ratio to bare": ("ratio_to_bare", ".3f"),
    "steps/s": ("steps_per_second", ".1f"),
    "page faults/step": ("page_faults_per_step", ",d"),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure the paths and print a row for each."""
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
    """Parse the command line."""
    command_line = parser("bench.train", __doc__)
    command_line.set_defaults(seconds=2.0)
    command_line.add_argument(
        "--batch", type=positive(int), default=256, help="positions of a batch [256]"
    )
    command_line.add_argument(
        "--games", type=positive(int), default=500, help="games in the window [500]"
    )
    command_line.add_argument(
        "--network",
        type=network_of,
        metavar="BLOCKSxCHANNELS",
        help="size of the network, such as 4x48 [the workload's]",
    )
    command_line.add_argument(
        "--prefetch",
        type=int,
        metavar="BATCHES",
        help="batches that are drawn in advance [0 on CPUs, 2 on a GPU]",
    )
    return command_line.parse_args(argv)


def network_of(name: str) -> NetworkSection:
    """Return the network of a name such as 4x48.

    Raises:
        ArgumentTypeError: the name has another form, or a number is out of range.
    """
    try:
        blocks, channels = map(int, name.split("x"))
        return NetworkSection(blocks=blocks, channels=channels)
    except ValueError as error:
        message = f"give blocks and channels, such as 4x48, not {name}"
        raise argparse.ArgumentTypeError(message) from error


async def measure(
    workload: Workload,
    size: int,
    games: int,
    seconds: float,
    blocks: int,
    prefetch: int | None = None,
) -> list[Row]:
    """Interleave blocks of the paths; return a row for each.

    Args:
        workload: the game and the network.
        size: positions of a batch.
        games: games in the window.
        seconds: seconds of a block.
        blocks: blocks of each path.
        prefetch: batches that are drawn in advance; None: the learner's default.
    """
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
    """Return a replay window with these games.

    Args:
        workload: the game.
        run: run whose limits the window has.
        records: games with a result.
    """
    limits = run.trainer.window_positions, run.trainer.window_games
    window = ReplayBuffer(workload.game, *limits)
    for record in records:
        assert record.result is not None  # all games were played to the end
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
    """Return a training step that is as simple as possible.

    It has the trainer's device and precision.

    Args:
        workload: the game.
        run: run with the network and the settings of the trainer.
        batch: batch of every step.
    """
    settings, device = run.trainer, Team().device
    network = make_network(workload.spec, run.network, run.seed).to(device).train()
    optimizer = torch.optim.SGD(
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
        optimizer.zero_grad()
        parts = data_losses(precision.predict(network.outputs, observations), targets)
        (parts["policy"] + parts["value"]).backward()
        optimizer.step()

    return step


def repeated(step: Callable[[], None], samples: int) -> Work:
    """Return a path that repeats a training step.

    Args:
        step: one step.
        samples: samples of one step.
    """

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
    """Return the row of a path, with medians over its blocks.

    Args:
        workload: the game and the network.
        path: name of the path.
        done: blocks of each path without the warm-up.
        size: positions of a batch.
    """
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
