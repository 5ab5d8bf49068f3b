"""Measure how strong other programs ("peers") get for the same CPU time, in the same exam.

``python -m bench.peers openspiel mctx --python PEERS/bin/python`` trains each peer on Connect Four,
in a Python environment of its own. When the peer's processes have used 300, 900 and 1800
CPU-seconds (``--marks``), its newest checkpoint takes the exam of ``zerofleet compare``. The exam
has the same positions and the same search for all peers; only the network is the peer's.

CPU-seconds count all processes of the peer from their start, with imports and compilation. Exams do
not count.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.peer_predictor import PEERS, PeerPredictor, PeerProcess
from bench.processes import family_cpu_seconds
from bench.report import positive, run_main
from zerofleet.comparison.trainings import exam_answers
from zerofleet.config import load_run
from zerofleet.errors import ConfigError

GAME = "connect_four"
_POLL_SECONDS = 0.2  # between two readings of the CPU time


def main(argv: Sequence[str] | None = None) -> None:
    """Train the peers one after the other, and print a row for each mark."""
    options = _parse(argv)
    for name in options.peers:
        with tempfile.TemporaryDirectory(prefix=f"peer-{name}-") as temporary:
            folder = (options.folder / name) if options.folder else Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            if newest_checkpoint(folder):
                raise ConfigError(
                    f"--folder: {folder} already has checkpoints; choose another folder"
                )
            learn(name, folder, options)


def learn(name: str, folder: Path, options: argparse.Namespace) -> None:
    """Train one peer up to the last mark, and report the exam of each mark.

    The peer continues while its checkpoint takes the exam. Exams do not count as its CPU time.

    Args:
        name: name of the peer.
        folder: folder for its checkpoints and its log.
        options: the command line.

    Raises:
        ChildGoneError: the peer ended before the last mark.
        ConfigError: it had no checkpoint at a mark.
    """
    log = folder / "log.txt"
    arguments = ["learn", str(folder), str(options.seed)]
    start: float | None = None  # CPU-seconds until the first checkpoint
    exams: list[Future[None]] = []
    with (
        ThreadPoolExecutor(1) as examiner,
        PeerProcess(options.python, PEERS[name].module, *arguments, log=log) as process,
    ):
        for mark in sorted(options.marks):
            while (used := family_cpu_seconds(process.pid)) < mark:
                process.check()
                if start is None and newest_checkpoint(folder):
                    start = used
                time.sleep(_POLL_SECONDS)
            newest = newest_checkpoint(folder)
            if newest is None:
                raise ConfigError(
                    f"{name} has no checkpoint after {mark:g} CPU-seconds: choose later --marks"
                )
            row = {"peer": name, "seed": options.seed, "mark": mark, "cpu_seconds": round(used, 1)}
            row |= {"cpu_start": round(start or used, 1), **newest}
            exams.append(examiner.submit(examine_row, row, folder, options))
    for exam in exams:
        exam.result()


def newest_checkpoint(folder: Path) -> dict[str, int] | None:
    """Return the newest checkpoint of a folder; None if there is none.

    Returns:
        Its ``step``, and the ``games`` and ``positions`` from which it has learnt.
    """
    file = folder / "learner.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
    for line in reversed(lines):
        if line.endswith("\n"):  # the peer has not finished writing any other line
            entry = json.loads(line)
            games, positions = entry["total_trajectories"], entry["total_states"]
            return {"step": entry["step"], "games": games, "positions": positions}
    untrained = folder / "checkpoint-0"
    return {"step": 0, "games": 0, "positions": 0} if untrained.exists() else None


def examine_row(row: dict[str, Any], folder: Path, options: argparse.Namespace) -> None:
    """Let the checkpoint of a row take the exam; add the results to the row and report it.

    Args:
        row: the mark's row, with ``peer`` and ``step``.
        folder: folder of the peer's checkpoints and its log.
        options: the command line.

    Raises:
        ChildGoneError: the process that predicts with the checkpoint ended.
    """
    peer = PEERS[row["peer"]]
    checkpoint = folder / f"checkpoint-{row['step']}"
    arguments = ["answer", str(checkpoint)]
    with PeerProcess(options.python, peer.module, *arguments, log=folder / "log.txt") as process:
        predictor = PeerPredictor(peer, process.predict)
        exam = exam_answers(options.run, predictor, options.simulations, options.positions)
        for question, answers in asyncio.run(exam).items():
            row[question] = round(answers.error_rate, 5)
            if answers.value_error is not None:
                row[f"{question}_mse"] = round(answers.value_error, 4)
    report(row, options.output)


def report(row: dict[str, Any], output: Path | None) -> None:
    """Print the row of a mark.

    Args:
        row: the row with its exam.
        output: file to which the row is appended as a line of JSON; None: none.
    """
    exam = [
        f"(mse {value:.3f})" if key.endswith("_mse") else f"{key} {value:.1%}"
        for key, value in row.items()
        if "@" in key
    ]
    print(
        f"{row['peer']:10} {row['cpu_seconds']:6,.0f} CPU-s ({row['cpu_start']:.0f} to start), "
        f"step {row['step']}, {row['games']:,} games, {row['positions']:,} positions  "
        f"{' '.join(exam)}",
        flush=True,
    )
    if output is not None:
        with output.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(row)}\n")


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "peers", nargs="+", choices=list(PEERS), metavar="PEER", help=", ".join(PEERS)
    )
    parser.add_argument(
        "--python", type=Path, required=True, help="interpreter of the peers' environment"
    )
    parser.add_argument(
        "--marks",
        type=positive(float),
        nargs="+",
        default=[300, 900, 1800],
        help="CPU-seconds at which a checkpoint takes the exam [300 900 1800]",
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of mctx; OpenSpiel has none [1]")
    parser.add_argument(
        "--run",
        default="runs/connect_four.toml",
        help="run file whose [search] the exam uses [runs/connect_four.toml]",
    )
    parser.add_argument(
        "--positions", type=positive(int), default=600, help="positions of each exam [600]"
    )
    parser.add_argument(
        "--simulations",
        type=positive(int),
        nargs="+",
        default=[1, 100],
        help="simulations of each exam [1 100]",
    )
    parser.add_argument("--folder", type=Path, help="folder for checkpoints and logs [temporary]")
    parser.add_argument(
        "--output", type=Path, help="file to which each row is appended as a line of JSON"
    )
    options = parser.parse_args(argv)
    options.run = load_run(Path(options.run))
    if options.run.game.name != GAME:
        raise ConfigError(
            f"--run: the game is {options.run.game.name}, but peers learn only {GAME}: choose a "
            "run of that game"
        )
    if not options.python.exists():
        raise ConfigError(f"--python {options.python}: there is no such interpreter")
    options.folder = options.folder and options.folder.resolve()
    return options


if __name__ == "__main__":
    run_main(main)
