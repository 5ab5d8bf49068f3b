"""How strong do other programs get for their CPU-seconds, in the same exam?

``python -m bench.peers openspiel mctx --python PEERS/bin/python`` lets each learn Connect Four in
an environment of its own, takes its newest checkpoint when its processes have used up 300, 900 and
1800 CPU-seconds (``--marks``), and examines that as ``zerofleet compare`` does: the same positions
and the same search over the peer's network. CPU-seconds are those of all its processes from their
start, imports and compilers included; exams cost it nothing.
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
_LOOKS_SECONDS = 0.2  # between looks at the clock of CPU time


def main(argv: Sequence[str] | None = None) -> None:
    """Let the peers learn one after the other, and print a row for each mark."""
    options = _parse(argv)
    for name in options.peers:
        with tempfile.TemporaryDirectory(prefix=f"peer-{name}-") as temporary:
            folder = (options.folder / name) if options.folder else Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            if newest_checkpoint(folder):
                raise ConfigError(f"--folder {folder} holds checkpoints: name another folder")
            learn(name, folder, options)


def learn(name: str, folder: Path, options: argparse.Namespace) -> None:
    """One peer, up to the last mark; it learns on while it is examined, which costs it nothing.

    Raises:
        ChildGoneError: it ended before that.
        ConfigError: it had no network at the first mark.
    """
    log = folder / "log.txt"
    arguments = ["learn", str(folder), str(options.seed)]
    start: float | None = None  # CPU-seconds until there was a network
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
                time.sleep(_LOOKS_SECONDS)
            newest = newest_checkpoint(folder)
            if newest is None:
                raise ConfigError(
                    f"{name} has no network after {mark:g} CPU-seconds: give later --marks"
                )
            row = {"peer": name, "seed": options.seed, "mark": mark, "cpu_seconds": round(used, 1)}
            row |= {"cpu_start": round(start or used, 1), **newest}
            exams.append(examiner.submit(examine_row, row, folder, options))
    for exam in exams:
        exam.result()


def newest_checkpoint(folder: Path) -> dict[str, int] | None:
    """The step of the newest one, and the games and positions that it had learnt from."""
    file = folder / "learner.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
    for line in reversed(lines):
        if line.endswith("\n"):  # else it is being written
            of = json.loads(line)
            games, positions = of["total_trajectories"], of["total_states"]
            return {"step": of["step"], "games": games, "positions": positions}
    untrained = folder / "checkpoint-0"
    return {"step": 0, "games": 0, "positions": 0} if untrained.exists() else None


def examine_row(row: dict[str, Any], folder: Path, options: argparse.Namespace) -> None:
    """Examine the checkpoint of a row, and report it with its errors."""
    peer = PEERS[row["peer"]]
    checkpoint = folder / f"checkpoint-{row['step']}"
    arguments = ["answer", str(checkpoint)]
    with PeerProcess(options.python, peer.module, *arguments, log=folder / "log.txt") as process:
        predictor = PeerPredictor(peer, process.ask)
        exam = exam_answers(options.run, predictor, options.simulations, options.positions)
        for question, answers in asyncio.run(exam).items():
            row[question] = round(answers.error_rate, 5)
            if answers.value_error is not None:
                row[f"{question}_mse"] = round(answers.value_error, 4)
    report(row, options.output)


def report(row: dict[str, Any], output: Path | None) -> None:
    """Print a mark's row and keep it."""
    exam = [
        f"(mse {value:.3f})" if key.endswith("_mse") else f"{key} {value:.1%}"
        for key, value in row.items()
        if "@" in key
    ]
    print(
        f"{row['peer']:10} {row['cpu_seconds']:6,.0f} CPU-s ({row['cpu_start']:.0f} to begin), "
        f"step {row['step']}, {row['games']:,} games, {row['positions']:,} positions  "
        f"{' '.join(exam)}",
        flush=True,
    )
    if output is not None:
        with output.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(row)}\n")


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    found = argparse.ArgumentParser(
        prog="python -m bench.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("peers", nargs="+", choices=list(PEERS), metavar="PEER")
    found.add_argument(
        "--python", type=Path, required=True, help="interpreter of the peers' environment"
    )
    found.add_argument("--marks", type=positive(float), nargs="+", default=[300, 900, 1800])
    found.add_argument("--seed", type=int, default=1, help="of mctx; openspiel takes none")
    found.add_argument("--run", default="runs/connect_four.toml", help="whose [search] examines")
    found.add_argument("--positions", type=positive(int), default=600, help="of each exam [600]")
    found.add_argument("--simulations", type=positive(int), nargs="+", default=[1, 100])
    found.add_argument("--folder", type=Path, help="keeps checkpoints and logs")
    found.add_argument("--output", type=Path, help="gets every row as a line of JSON")
    options = found.parse_args(argv)
    options.run = load_run(Path(options.run))
    if options.run.game.name != GAME:
        raise ConfigError(f"--run: {options.run.game.name}: peers learn {GAME} alone")
    if not options.python.exists():
        raise ConfigError(f"--python {options.python}: there is no such interpreter")
    options.folder = options.folder and options.folder.resolve()
    return options


if __name__ == "__main__":
    run_main(main)
