"""Measure how fast the trainer reads its window from Postgres, and samples batches from it.

``python -m bench.replay connect_four`` plays games and stores them in a real Postgres. Then it
interleaves two paths of the trainer's window:

- ``load`` reads all stored games, page after page, until they can be sampled. Rows are the rows of
  the table ``positions``. The CPU time includes Postgres.
- ``sample`` draws positions, replays their games and makes a batch, under random symmetries.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence

from bench import blocks as measured
from bench.blocks import Block, Counts, Work
from bench.games_played import RUN, played_games, run_of
from bench.processes import cpu_clock
from bench.report import Row, parser, positive, run_main, show
from bench.stores import bench_folder, pid_of, postgres_of
from bench.workloads import Workload
from zerofleet.config import RunConfig
from zerofleet.database import SelfplayDatabase, Submission, TrainerDatabase
from zerofleet.database.window_games import OptionalColumn, WindowPage
from zerofleet.errors import RecordRejectedError
from zerofleet.learning.learner import Learner
from zerofleet.learning.overfit import OverfitWatch
from zerofleet.learning.window import TrainBucket, Training, Window
from zerofleet.records import GameRecord

STORED_AT_ONCE = 64  # games of one submission
COLUMNS = {
    "path": ("path", ""),
    "positions/CPU-s": ("positions_per_cpu_second", ",d"),
    "positions/s": ("positions_per_second", ",d"),
    "rows/CPU-s": ("rows_per_cpu_second", ",d"),
    "rows/s": ("rows_per_second", ",d"),
    "games/s": ("games_per_second", ",d"),
    "Postgres' share of CPU": ("postgres_cpu_share", ".0%"),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure both paths and print a row for each."""
    options = parse(argv)
    workload: Workload = options.workload
    rows = measure(workload, options)
    title = f"{workload.name}, {options.games} games, batches of {options.batch}"
    show(rows, title, COLUMNS, as_json=options.json)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    command_line = parser("bench.replay", __doc__)
    command_line.set_defaults(seconds=2.0)
    command_line.add_argument(
        "--games", type=positive(int), default=1_000, help="games in Postgres [1000]"
    )
    command_line.add_argument(
        "--batch", type=positive(int), default=256, help="positions of a batch [256]"
    )
    return command_line.parse_args(argv)


def measure(workload: Workload, options: argparse.Namespace) -> list[Row]:
    """Store games, then interleave loading and sampling; return a row for each path.

    Args:
        workload: the game.
        options: the command line.
    """
    run = run_of(workload)
    records = played_games(workload, options.games, seed=3)
    with bench_folder() as folder, postgres_of(run, folder) as postgres:
        with SelfplayDatabase(postgres.url("worker")) as database:
            store(database, records)
        with CountingDatabase(postgres.url("trainer")) as database:
            windows = Windows(run, workload, database)
            done = asyncio.run(
                measured.interleave(
                    {"load": windows.load, "sample": windows.sampler(options.batch)},
                    options.seconds,
                    options.blocks,
                    cpu_clock(families={"postgres": pid_of(postgres)}),
                )
            )
    return [summary(workload, path, mine) for path, mine in done.items()]


def store(database: SelfplayDatabase, records: Sequence[GameRecord]) -> None:
    """Submit games in batches, as a worker does.

    Raises:
        RecordRejectedError: Postgres rejects one of them.
    """
    for first in range(0, len(records), STORED_AT_ONCE):
        page = [Submission(record) for record in records[first : first + STORED_AT_ONCE]]
        answers = set(database.submit_games(RUN, "bench", page))
        if answers != {"stored"}:
            raise RecordRejectedError(f"Postgres did not store new games; it returned {answers}")


class CountingDatabase(TrainerDatabase):
    """The trainer's database, with the number of rows and games that were read."""

    rows = 0
    """Rows read of the table ``positions``."""
    games = 0
    """Games read."""

    def read_games(
        self, run: str, after_tx: int, limit: int, optional: tuple[OptionalColumn, ...] = ()
    ) -> WindowPage:
        """Read a page of games and count it; see ``TrainerDatabase.read_games``."""
        page = super().read_games(run, after_tx, limit, optional)
        self.rows += sum(len(game.action) for game in page.games)
        self.games += len(page.games)
        return page


class Windows:
    """Two windows of the trainer: one is loaded again and again, the other is full for sampling.

    Args:
        run: run whose sizes the windows have.
        workload: the game.
        database: the stored games.
    """

    def __init__(self, run: RunConfig, workload: Workload, database: CountingDatabase) -> None:
        self._run = run
        self._database = database
        self._learner = Learner(workload.spec, run)
        self._window = self._empty()
        self._full = self._empty()
        while self._full.read_page():
            pass

    async def load(self, seconds: float) -> Counts:
        """Read page after page for at least this time; start again when all games are loaded.

        Returns:
            The number of training ``positions``, ``rows`` and ``games``.
        """
        database = self._database
        end, rows, games = time.monotonic() + seconds, database.rows, database.games
        positions = 0
        while database.games == games or time.monotonic() < end:
            before = self._positions()
            if self._window.read_page():
                positions += self._positions() - before
            else:
                self._window = self._empty()
        return {
            "positions": positions,
            "rows": database.rows - rows,
            "games": database.games - games,
        }

    def sampler(self, batch: int) -> Work:
        """Return a path that draws batches of this many positions from the full window."""

        async def sample(seconds: float) -> Counts:
            end, batches = time.monotonic() + seconds, 0
            while time.monotonic() < end:
                self._full.sample(batch, seed=batches)
                batches += 1
            return {"positions": batches * batch}

        return sample

    def _positions(self) -> int:
        """Return the number of training positions, with the validation set."""
        return self._window.trained.positions + self._window.held_out.positions

    def _empty(self) -> Window:
        bucket = TrainBucket(self._run.trainer.samples_per_position)
        training = Training(self._learner, bucket, OverfitWatch(self._run.overfit))
        return Window(self._run, self._database, training)


def summary(workload: Workload, path: str, blocks: list[Block]) -> Row:
    """Return the row of a path, with medians over its blocks."""
    row: Row = {
        "bench": "replay",
        "game": workload.name,
        "path": path,
        "positions_per_cpu_second": round(measured.per_cpu_second(blocks, "positions")),
        "positions_per_second": round(measured.per_second(blocks, "positions")),
    }
    if path == "load":
        used = sum(block.all_cpu_s for block in blocks)
        row |= {
            "rows_per_cpu_second": round(measured.per_cpu_second(blocks, "rows")),
            "rows_per_second": round(measured.per_second(blocks, "rows")),
            "games_per_second": round(measured.per_second(blocks, "games")),
            "postgres_cpu_share": round(sum(b.cpu_s["postgres"] for b in blocks) / used, 3),
        }
    return row


if __name__ == "__main__":
    run_main(main)
