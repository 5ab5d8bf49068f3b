"""Measure how long it takes to drop old searches, and whether that delays submissions.

``python -m bench.retention`` starts a real Postgres that syncs every commit to disk. It plays games
and stores copies of them for many past days, until ``positions`` has about ``--positions`` rows.
Then it drops half of the days, one partition after the other, while a worker submits batches.

``--positions 20000000 --days 20 --folder DIR`` fills about 6 GB.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg2

from bench.copied_games import PLAYED, Copying, copy_day
from bench.games_played import RUN, played_games, run_of
from bench.report import Row, game_option, parser, positive, run_main, show
from bench.store_worker import BATCH_GAMES, submit
from bench.stores import postgres_of
from bench.workloads import Workload
from zerofleet.database import SelfplayDatabase, TrainerDatabase
from zerofleet.errors import ZerofleetError
from zerofleet.local.postgres import EmbeddedPostgres
from zerofleet.records import GameRecord

COPIED_GAMES = 256  # distinct games
COLUMNS = {
    "while": ("while", ""),
    "rows": ("positions", ",d"),
    "days": ("days", "d"),
    "bytes/row": ("bytes_per_position", ".0f"),
    "game bytes/row": ("game_bytes_per_position", ".0f"),
    "MB before": ("megabytes_before", ",.0f"),
    "MB after": ("megabytes_after", ",.0f"),
    "drops": ("drops", "d"),
    "attempts": ("attempts", "d"),
    "longest drop, ms": ("longest_drop_ms", ",.1f"),
    "longest commit, ms": ("longest_commit_ms", ",.1f"),
    "submissions": ("submissions", ",d"),
    "median submission, ms": ("median_submission_ms", ",.1f"),
    "longest submission, ms": ("longest_submission_ms", ",.1f"),
}


class NothingDroppedError(ZerofleetError):
    """No partition could be dropped."""


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print a row for each situation."""
    options = parse(argv)
    rows = measure(options)
    show(rows, f"{options.workload.name}, dropping old searches", COLUMNS, as_json=options.json)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    command_line = parser("bench.retention", __doc__, game=False)
    game_option(command_line)
    command_line.add_argument(
        "--positions",
        type=positive(int),
        default=200_000,
        help="rows of the table positions [200000]",
    )
    command_line.add_argument(
        "--days", type=positive(int), default=6, help="days, each of which has a partition [6]"
    )
    command_line.add_argument(
        "--folder", type=Path, help="create the database in this folder, on a real disk [temporary]"
    )
    return command_line.parse_args(argv)


def measure(options: argparse.Namespace) -> list[Row]:
    """Fill a database, and measure submissions in three situations; return a row for each.

    1. Nothing else happens.
    2. Days are dropped.
    3. A session that reads keeps a day from being dropped.

    Each situation lasts ``--seconds`` times ``--blocks`` or longer.

    Raises:
        NothingDroppedError: see ``_drop``.
    """
    workload: Workload = options.workload
    seconds = options.seconds * options.blocks
    with _folder(options.folder) as folder, postgres_of(run_of(workload), folder) as postgres:
        known = fill(postgres, workload, options.positions, options.days)
        drops = max(1, options.days // 2)
        with TrainerDatabase(postgres.url("trainer")) as trainer:
            epoch = trainer.acquire_fence(RUN, "trainer")
            trainer.state_needs(
                RUN, window_games=1, played_on_games=1, margin=timedelta(0), epoch=epoch
            )
            submitting = _Submitting(postgres.url("worker"), workload)
            rows: list[Row] = []
            with submitting:
                time.sleep(seconds)
            rows.append({"while": "nothing else happens", **submitting.figures()})
            before = megabytes(postgres)
            with submitting:
                time.sleep(seconds / 2)
                took = [each for _ in range(drops) for each in _drop(postgres.url("trainer"))]
                time.sleep(seconds / 2)
            rows.append(
                {
                    "while": "days are dropped",
                    **submitting.figures(),
                    "drops": drops,
                    "attempts": len(took),
                    "longest_drop_ms": 1e3 * max(drop for drop, _ in took),
                    "longest_commit_ms": 1e3 * max(commit for _, commit in took),
                    "megabytes_before": before,
                    "megabytes_after": megabytes(postgres),
                }
            )
            with closing(psycopg2.connect(postgres.url("console"))) as reader, submitting:
                with reader.cursor() as cursor:
                    cursor.execute("SELECT count(*) FROM game_moves WHERE game_uid IS NULL")
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    if options.days > drops + 1:
                        trainer.drop_partition()  # gives up, because of the reader
                    time.sleep(seconds / 20)
            rows.append({"while": "a reader blocks a drop", **submitting.figures()})
    return [{"bench": "retention", "game": workload.name, **known, **row} for row in rows]


@contextlib.contextmanager
def _folder(inside: Path | None) -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="zerofleet-bench-", dir=inside) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def fill(postgres: EmbeddedPostgres, workload: Workload, positions: int, days: int) -> Row:
    """Play and store games, and copy them to each of the days up to yesterday.

    Args:
        postgres: a server with a registered run.
        workload: the game.
        positions: approximate number of rows of the table ``positions``.
        days: number of days, with one partition each.

    Returns:
        ``positions`` and ``days``; and ``bytes_per_position`` and ``game_bytes_per_position``, the
        bytes on disk of the searches and of the games for each position.
    """
    records = played_games(workload, min(COPIED_GAMES, positions), seed=5)
    plies = sum(record.length for record in records)
    copies = max(1, round(positions / days / plies))
    with SelfplayDatabase(postgres.url("worker")) as database:
        submit(database, PLAYED, records)
    with closing(psycopg2.connect(postgres.url("owner"))) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute("SET synchronous_commit = off")
        today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        for ago in range(days, 0, -1):
            copy_day(cursor, today - timedelta(days=ago), Copying(copies))
        cursor.execute("VACUUM ANALYZE games")
        cursor.execute(
            "SELECT (SELECT sum(bytes) FROM positions_on_disk), pg_total_relation_size('games'), "
            "(SELECT count(*) FROM positions)"
        )
        [(position_bytes, game_bytes, stored)] = cursor.fetchall()
    with closing(psycopg2.connect(postgres.url("superuser"))) as connection:
        connection.cursor().execute("CHECKPOINT")
    return {
        "positions": int(stored),
        "days": days,
        "bytes_per_position": float(position_bytes) / stored,
        "game_bytes_per_position": float(game_bytes) / stored,
    }


def _drop(url: str) -> list[tuple[float, float]]:
    """Drop the oldest partition, in as many attempts as it takes.

    Returns:
        Two times in seconds for each attempt, of which the last one succeeded: the statement, which
        changes ``positions``; and the commit, which removes the files after it releases the locks.

    Raises:
        NothingDroppedError: the run needs every partition.
    """
    took: list[tuple[float, float]] = []
    with closing(psycopg2.connect(url)) as connection:
        while True:
            cursor = connection.cursor()
            began = time.perf_counter()
            cursor.execute("SELECT outcome FROM drop_partition()")
            outcomes = cursor.fetchall()
            done = time.perf_counter()
            connection.commit()
            took.append((done - began, time.perf_counter() - done))
            if not outcomes:
                raise NothingDroppedError("the run needs every partition, so none can be dropped")
            if outcomes == [("dropped",)]:
                return took


def megabytes(postgres: EmbeddedPostgres) -> float:
    """Return the size of the database on disk, in MB."""
    with closing(psycopg2.connect(postgres.url("owner"))) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT pg_database_size(current_database())")
        [(size,)] = cursor.fetchall()
        return size / 1e6


class _Submitting:
    """A worker that submits one batch after the other, in a thread, inside the ``with`` block."""

    def __init__(self, url: str, workload: Workload) -> None:
        self._url = url
        self._records: list[GameRecord] = played_games(workload, BATCH_GAMES, seed=7)
        self._took: list[float] = []

    def __enter__(self) -> None:
        self._took = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._submit)
        self._thread.start()

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()

    def _submit(self) -> None:
        with SelfplayDatabase(self._url) as database:
            while not self._took or not self._stop.is_set():
                began = time.perf_counter()
                submit(database, "bench", self._records)
                self._took.append(time.perf_counter() - began)

    def figures(self) -> Row:
        """Return the number of submissions, and their median and longest time in ms."""
        return {
            "submissions": len(self._took),
            "median_submission_ms": 1e3 * statistics.median(self._took),
            "longest_submission_ms": 1e3 * max(self._took),
        }


if __name__ == "__main__":
    run_main(main)
