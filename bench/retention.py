"""Forgetting searches while games come in: how long a drop takes, and how long a submission.

``python -m bench.retention`` starts a real Postgres, every commit synced to disk, stores games that
were played, copies them over many days by ``generate_series`` until the table ``positions`` has as
many rows as asked for, and then drops one day after the other while a worker submits batches.
``--positions 20000000 --days 20 --folder DIR`` fills 6 GB or so.
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

COPIED_GAMES = 256
COLUMNS = {
    "while": ("while", ""),
    "rows": ("positions", ",d"),
    "days": ("days", "d"),
    "bytes/row": ("bytes_per_position", ".0f"),
    "of games": ("game_bytes_per_position", ".0f"),
    "MB before": ("megabytes_before", ",.0f"),
    "MB after": ("megabytes_after", ",.0f"),
    "drops": ("drops", "d"),
    "attempts": ("attempts", "d"),
    "longest drop, ms": ("longest_drop_ms", ",.1f"),
    "its commit, ms": ("longest_commit_ms", ",.1f"),
    "submissions": ("submissions", ",d"),
    "median, ms": ("median_submission_ms", ",.1f"),
    "longest, ms": ("longest_submission_ms", ",.1f"),
}


class NothingDroppedError(ZerofleetError):
    """A partition that no run needs was not dropped."""


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parse(argv)
    rows = measure(options)
    show(rows, f"{options.workload.name}, old searches forgotten", COLUMNS, as_json=options.json)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    found = parser("bench.retention", __doc__, game=False)
    game_option(found)
    found.add_argument("--positions", type=positive(int), default=200_000, help="rows [200000]")
    found.add_argument("--days", type=positive(int), default=6, help="partitions filled [6]")
    found.add_argument("--folder", type=Path, help="where the database is made, on a real disk")
    return found.parse_args(argv)


def measure(options: argparse.Namespace) -> list[Row]:
    """Fill a database; submit games while nothing else happens, while days go, beside a reader."""
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
                        trainer.drop_partition()  # which gives up
                    time.sleep(seconds / 20)
            rows.append({"while": "a reader keeps a day from its drop", **submitting.figures()})
    return [{"bench": "retention", "game": workload.name, **known, **row} for row in rows]


@contextlib.contextmanager
def _folder(inside: Path | None) -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="zerofleet-bench-", dir=inside) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def fill(postgres: EmbeddedPostgres, workload: Workload, positions: int, days: int) -> Row:
    """Store games that were played, and copy them over the days until yesterday.

    Returns:
        What a row takes on disk, and what was filled.
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
        [(of_positions, of_games, stored)] = cursor.fetchall()
    with closing(psycopg2.connect(postgres.url("superuser"))) as connection:
        connection.cursor().execute("CHECKPOINT")
    return {
        "positions": int(stored),
        "days": days,
        "bytes_per_position": float(of_positions) / stored,
        "game_bytes_per_position": float(of_games) / stored,
    }


def _drop(url: str) -> list[tuple[float, float]]:
    """Drop the oldest partition.

    Returns:
        Of each attempt, the last of which did it, the seconds until ``positions`` was changed, and
        those of the commit. The latter removes the files, after the locks are gone.
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
                raise NothingDroppedError("there is no partition that the run does not need")
            if outcomes == [("dropped",)]:
                return took


def megabytes(postgres: EmbeddedPostgres) -> float:
    """The database's size on disk."""
    with closing(psycopg2.connect(postgres.url("owner"))) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT pg_database_size(current_database())")
        [(size,)] = cursor.fetchall()
        return size / 1e6


class _Submitting:
    """A worker that submits one batch after the other while it is entered."""

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
        """How long submissions took."""
        return {
            "submissions": len(self._took),
            "median_submission_ms": 1e3 * statistics.median(self._took),
            "longest_submission_ms": 1e3 * max(self._took),
        }


if __name__ == "__main__":
    run_main(main)
