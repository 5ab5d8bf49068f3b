"""``python -m zerofleet.comparison REQUEST``: compare runs; the request is JSON.

``zerofleet compare`` makes the request from its arguments and becomes this program.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

import structlog
import torch

from zerofleet.comparison.compared_runs import Comparison, ComparisonRequest
from zerofleet.comparison.comparison_folder import PAGE, ComparisonFolder
from zerofleet.comparison.comparison_page import page_of
from zerofleet.comparison.comparison_result import print_table, results_of
from zerofleet.comparison.trainings import Trainings
from zerofleet.errors import ConfigError, ZerofleetError
from zerofleet.printable import printable_lines

_WARNING = 30


def compare(request: ComparisonRequest) -> dict[str, Any]:
    """Train, examine and play what is missing, write the results into the folder and print them.

    Returns:
        The results as JSON.

    Raises:
        ConfigError: the request or a run has a mistake.
    """
    comparison = Comparison.of(request)
    with ComparisonFolder(comparison) as folder:
        try:
            by_seed = Trainings(comparison, folder, sys.stderr).go()
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


def main() -> int:
    """Compare what the argument says; an error is one line on stderr."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    # Results go to standard output, so messages must not.
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(_WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    torch.set_num_threads(1)  # CPU-seconds of several threads would include their waits
    try:
        compare(ComparisonRequest(**json.loads(sys.argv[1])))
    except ZerofleetError as error:
        _tell(f"zerofleet: {error}")
        return error.exit_code if isinstance(error, ConfigError) else 1
    except KeyboardInterrupt:
        return 130
    return 0


def _tell(words: str) -> None:
    print(printable_lines(words), file=sys.stderr, flush=True)  # noqa: T201


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
