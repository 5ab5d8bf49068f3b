"""``python -m zerofleet.comparison REQUEST``: compare runs; the request is JSON.

``zerofleet compare`` makes the request from its arguments and becomes this program.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import structlog
import torch

from zerofleet.comparison.compared_runs import Comparison, ComparisonRequest, seed_words
from zerofleet.comparison.comparison_folder import PAGE, ComparisonFolder
from zerofleet.comparison.comparison_page import page_of
from zerofleet.comparison.comparison_result import print_table, results_of
from zerofleet.comparison.trainings import Trainings
from zerofleet.errors import ZerofleetError
from zerofleet.launch import leave_with
from zerofleet.printable import printable_lines

_WARNING = 30
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def compare(request: ComparisonRequest) -> dict[str, Any]:
    """Train, examine and play what is missing, write the results into the folder and print them.

    Returns:
        The results as JSON.

    Raises:
        ConfigError: the request or a run has a mistake.
        JobFailedError: a process that trained some seed has failed.
    """
    comparison = Comparison.of(request)
    with ComparisonFolder(comparison) as folder:
        trainings = Trainings(comparison, folder, sys.stderr)
        try:
            trainings.announce()
            unfinished = [seed for seed, runs in trainings.missing.items() if runs]
            if min(request.jobs, len(unfinished)) > 1:
                train_at_once(request, unfinished, folder)
                trainings = Trainings(comparison, folder, sys.stderr)
            by_seed = trainings.go()
        except KeyboardInterrupt:
            pairs = [(run, seed) for run in comparison.runs for seed in request.seeds]
            finished = sum(folder.training(*pair) is not None for pair in pairs)
            _tell(
                f"\nstopped: {finished} of {len(pairs)} trainings are finished, in {folder.path}; "
                "the same command trains the others from their start"
            )
            raise
        results = results_of(comparison, by_seed)
        folder.keep_results(results, page_of(results))
        if request.as_json:
            print(json.dumps(results))  # noqa: T201
        else:
            print_table(results)
        _tell(f"page: {folder.path / PAGE}")
    return results


class JobFailedError(ZerofleetError):
    """Processes of ``train_at_once`` failed, and have written the reasons to stderr."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def train_at_once(
    request: ComparisonRequest, seeds: Sequence[int], folder: ComparisonFolder
) -> None:
    """Train seeds in processes of their own, ``request.jobs`` at a time, and play their matches.

    Each process keeps its trainings in the folder. If one fails, the others continue.

    Raises:
        JobFailedError: a process has failed.
    """
    jobs: list[subprocess.Popen[str]] = []
    starting = threading.Lock()
    stopped = False

    def train(seed: int) -> int:
        job = asdict(request) | {"seeds": [seed], "parent": os.getpid()}
        with starting:
            if stopped:
                return 0
            process = subprocess.Popen(
                [sys.executable, "-m", "zerofleet.comparison", json.dumps(job)],
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",  # other programs, such as GNU Go, may write there too
                pass_fds=folder.lock_fds,  # it stays locked while any process writes to it
            )
            jobs.append(process)
        with process:
            assert process.stderr is not None
            for line in process.stderr:
                _tell(line.rstrip("\n"))
        code = process.returncode
        if code < 0 and not stopped:
            _tell(f"seed {seed} was killed by {signal.Signals(-code).name}")
        return code

    with ThreadPoolExecutor(request.jobs) as pool:
        try:
            codes = list(pool.map(train, seeds))
        except KeyboardInterrupt:
            with starting:
                stopped = True
                for process in jobs:
                    process.terminate()
            raise
    failed = [seed for seed, code in zip(seeds, codes, strict=True) if code]
    if failed:
        common = set(filter(None, codes))
        raise JobFailedError(
            f"{seed_words(failed)} failed; the finished trainings are in {folder.path}",
            exit_code=max(1, *common) if len(common) == 1 else 1,
        )


def train_job(request: ComparisonRequest) -> None:
    """Train and play the seeds of one process of ``train_at_once``.

    Raises:
        ConfigError: the request or a run has a mistake.
    """
    comparison = Comparison.of(request)
    Trainings(comparison, ComparisonFolder(comparison), sys.stderr).go()


def main() -> int:
    """Compare what the argument says; an error is one line on stderr."""
    request = ComparisonRequest(**json.loads(sys.argv[1]))
    for number in _STOP_SIGNALS:
        signal.signal(number, _interrupt if request.parent is None else _interrupt_once)
    # Results go to standard output, so messages must not.
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(_WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    torch.set_num_threads(1)  # CPU-seconds of several threads would include their waits
    try:
        if request.parent is None:
            compare(request)
        else:
            leave_with(request.parent)  # it shares the lock of the folder
            train_job(request)
    except ZerofleetError as error:
        _tell(f"zerofleet: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


def _tell(words: str) -> None:
    print(printable_lines(words), file=sys.stderr, flush=True)  # noqa: T201


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _interrupt_once(number: int, frame: object) -> None:
    # Ctrl-C reaches a job twice: from the terminal, and from the process that started it.
    for each in _STOP_SIGNALS:
        signal.signal(each, _ignore)
    raise KeyboardInterrupt


def _ignore(number: int, frame: object) -> None:
    """Ignore a signal."""


if __name__ == "__main__":
    sys.exit(main())
