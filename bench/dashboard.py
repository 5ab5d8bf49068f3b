"""Measure the dashboard with the database of a month's run: statements, CPU time, first paint.

``python -m bench.dashboard --folder DIR`` first fills a real Postgres. The default sizes take 8 GB
and some minutes. A folder that is already filled is used as it is, whatever the sizes.

It then starts ``zerofleet.services.dashboard`` with heartbeats, a day of their history, and an
inference server whose network does nothing. It opens each page in Chromium, and reads the duration
of each statement in Postgres' log. Last, it measures the service's CPU time with several open
pages.

``--fill-only FOLDER`` stops when the database is filled. The measurement needs Debian's package
``chromium``.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import re
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from playwright.sync_api import Browser, sync_playwright

from bench.children import serving
from bench.filled_run import FilledRun, filled
from bench.games_played import RUN
from bench.processes import family_cpu_seconds
from bench.report import Row, game_option, parser, positive, run_main, show
from bench.stores import bench_folder
from bench.workloads import Workload
from zerofleet.database.connection import connect
from zerofleet.errors import ConfigError, ZerofleetError
from zerofleet.fleet.figures import (
    DemandFigures,
    EvaluatorFigures,
    Figures,
    InferenceFigures,
    SelfplayFigures,
    TrainerFigures,
)
from zerofleet.fleet.heartbeat import (
    KEPT_NOTES,
    NOTE_SECONDS,
    Heartbeat,
    Heartbeats,
    history_key,
    note,
)
from zerofleet.local.postgres import EmbeddedPostgres
from zerofleet.local.processes import free_port, start_child, stop_child
from zerofleet.local.valkey import EmbeddedValkey
from zerofleet.redis_connection import open_redis
from zerofleet.services.dashboard.frame import Frame
from zerofleet.services.dashboard.service import add_pages

WORKERS, REPLICAS = 8, 2
START_SECONDS = 120.0
COLUMNS = {
    "page": ("page", ""),
    "statements": ("statements", ",d"),
    "p50, ms": ("median_ms", ",.1f"),
    "p95, ms": ("p95_ms", ",.1f"),
    "longest, ms": ("longest_ms", ",.1f"),
    "first paint, ms": ("first_paint_ms", ",.0f"),
    "open pages": ("open_pages", "d"),
    "% of a core": ("core_percent", ".1f"),
}
_CHROMIUM = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
_STATEMENT = re.compile(rb"duration: ([0-9.]+) ms  statement: \s*(?:SELECT|WITH|FETCH)\b")
_RUN_FILE = 'name = "{run}"\n\n[game]\nname = "{game}"\n'
# Queries for an existing value of a path parameter, by the parameter's name.
_SAMPLES = {
    "version": "SELECT max(version)::text FROM models",
    "uid": "SELECT max(game_uid::text) FROM games WHERE kind = 'selfplay'",
    "match_id": "SELECT max(match_id)::text FROM matches",
}


class PageFaultError(ZerofleetError):
    """A page does not open, its path has an unknown parameter, or the dashboard does not start."""


def main(argv: Sequence[str] | None = None) -> None:
    """Fill the database if needed, measure all pages, and print the rows."""
    options = parse(argv)
    workload: Workload = options.workload
    sizes = FilledRun(options.games, options.positions)
    if options.fill_only:
        options.fill_only.mkdir(parents=True, exist_ok=True)
        with filled(options.fill_only, workload, sizes):
            print(f"The database is filled: {options.fill_only}", file=sys.stderr)
        return
    with contextlib.ExitStack() as stack:
        folder = options.folder or stack.enter_context(bench_folder())
        postgres = stack.enter_context(
            filled(folder, workload, sizes, {"log_min_duration_statement": "0"})
        )
        rows = measure(postgres, folder, options)
    show(rows, f"{workload.name}, dashboard", COLUMNS, as_json=options.json)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    found = parser("bench.dashboard", __doc__, game=False)
    game_option(found)
    found.add_argument(
        "--games", type=positive(int), default=1_000_000, help="games to fill in [1000000]"
    )
    found.add_argument(
        "--positions",
        type=positive(int),
        default=20_000_000,
        help="positions with searches to fill in [20000000]",
    )
    found.add_argument(
        "--pages", type=positive(int), default=20, help="pages that are open at the same time [20]"
    )
    found.add_argument(
        "--folder", type=Path, help="folder of the database, filled on first use [temporary]"
    )
    found.add_argument(
        "--fill-only", type=Path, metavar="FOLDER", help="fill this folder's database and exit"
    )
    return found.parse_args(argv)


def measure(postgres: EmbeddedPostgres, folder: Path, options: argparse.Namespace) -> list[Row]:
    """Open each page alone, then keep the front page open zero, one and several times.

    Args:
        postgres: a filled database that logs the duration of all statements.
        folder: folder of the database; Valkey's and the dashboard's files go there, too.
        options: the command line.

    Returns:
        A row for each page, then a row for each number of open pages.

    Raises:
        ConfigError: Chromium is not installed.
        PageFaultError: a page does not open, or the dashboard does not start.
    """
    chromium = shutil.which("chromium")
    if chromium is None:
        raise ConfigError("Chromium is not installed: apt-get install chromium")
    with (
        EmbeddedValkey(folder / "valkey") as valkey,
        _heartbeats(valkey.url()),
        serving(options.workload.game, None) as (_, inference),
        _dashboard(postgres, valkey, inference, folder, options.workload) as (base, pid),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=list(_CHROMIUM))
        log = _Statements(folder / "postgres" / "server.log")
        rows = [_page_row(browser, base, address, log, options) for address in _addresses(postgres)]
        seconds = options.seconds * options.blocks
        rows += [_cpu_row(browser, base, pid, count, seconds) for count in (0, 1, options.pages)]
        browser.close()
    return [{"bench": "dashboard", "game": options.workload.name, **row} for row in rows]


def _addresses(postgres: EmbeddedPostgres) -> list[str]:
    """Return the addresses of every registered page, with parameters filled in."""
    frame = Frame(cast("Any", None))
    add_pages(frame, cast("Any", None))
    addresses: list[str] = []
    with contextlib.closing(connect(postgres.url("console"))) as connection:
        for path in frame.paths:
            names = re.findall(r"{(\w+)}", path)
            unknown = set(names) - set(_SAMPLES)
            if unknown:
                raise PageFaultError(f"{path}: add a query for {', '.join(unknown)} to _SAMPLES")
            address = path
            for name in names:
                cursor = connection.cursor()
                cursor.execute(_SAMPLES[name])
                address = address.replace(f"{{{name}}}", str(cursor.fetchall()[0][0]))
            if "{" not in address:
                addresses.append(address)
    return addresses


def _page_row(
    browser: Browser, base: str, address: str, log: _Statements, options: argparse.Namespace
) -> Row:
    """Open a page ``options.blocks`` times, each time in a browser context with an empty cache.

    Returns:
        The page's row. Its statements are all that Postgres logged in the meantime.
    """
    print(f"{address} ...", file=sys.stderr, flush=True)
    log.take()
    paints: list[float] = []
    for _ in range(options.blocks):
        with contextlib.closing(browser.new_context()) as context:
            page = context.new_page()
            response = page.goto(base + address, timeout=1000 * START_SECONDS)
            if response is None or not response.ok:
                status = response and response.status
                raise PageFaultError(f"{address} does not open, HTTP status {status}")
            page.wait_for_timeout(1000 * options.seconds)
            paints.append(
                page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            )
    durations = log.take()
    row: Row = {
        "page": address,
        "statements": len(durations),
        "median_ms": statistics.median(durations) if durations else None,
        "p95_ms": sorted(durations)[math.ceil(0.95 * len(durations)) - 1] if durations else None,
        "longest_ms": max(durations, default=None),
        "first_paint_ms": statistics.median(paints),
    }
    print(row, file=sys.stderr, flush=True)  # the other pages may take long or fail
    return row


def _cpu_row(browser: Browser, base: str, pid: int, count: int, seconds: float) -> Row:
    """Return the row of the service's CPU time while ``count`` front pages are open.

    Args:
        browser: Chromium.
        base: address of the dashboard.
        pid: process of the dashboard.
        count: number of open pages.
        seconds: how long to measure.
    """
    print(f"open pages: {count} ...", file=sys.stderr, flush=True)
    # Chromium draws only one of these tabs. That is enough, because the service is measured.
    with contextlib.closing(browser.new_context()) as context:
        for _ in range(count):
            context.new_page().goto(f"{base}/", timeout=1000 * START_SECONDS)
        time.sleep(min(5.0, seconds))
        start, cpu_before = time.monotonic(), family_cpu_seconds(pid)
        time.sleep(seconds)
        share = (family_cpu_seconds(pid) - cpu_before) / (time.monotonic() - start)
    return {"page": "/", "open_pages": count, "core_percent": 100 * share}


class _Statements:
    """Durations of read statements in Postgres' log: ``SELECT``, ``WITH`` and ``FETCH``."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._offset = log.stat().st_size

    def take(self) -> list[float]:
        """Return the durations of the statements since the last call, in milliseconds."""
        with self._log.open("rb") as file:
            file.seek(self._offset)
            lines = file.read()
        self._offset += len(lines)
        return [float(duration) for duration in _STATEMENT.findall(lines)]


@contextlib.contextmanager
def _dashboard(
    postgres: EmbeddedPostgres,
    valkey: EmbeddedValkey,
    inference: str,
    folder: Path,
    workload: Workload,
) -> Generator[tuple[str, int]]:
    """Run the dashboard service, and yield its address and its process id.

    Raises:
        PageFaultError: it does not start within ``START_SECONDS``.
    """
    run_file, log = folder / "run.toml", folder / "dashboard.log"
    run_file.write_text(_RUN_FILE.format(run=RUN, game=workload.game))
    log.unlink(missing_ok=True)
    address = f"127.0.0.1:{free_port()}"
    environment = {
        **os.environ,
        "ZEROFLEET_DATABASE_URL": postgres.url("console"),
        "ZEROFLEET_REDIS_URL": valkey.url(),
        "ZEROFLEET_DASHBOARD_ADDRESS": address,
        "ZEROFLEET_INFERENCE_ADDRESS": inference,
    }
    command = [sys.executable, "-P", "-m", "zerofleet.services.dashboard", run_file]
    process = start_child(command, log=log, environment=environment)
    try:
        deadline = time.monotonic() + START_SECONDS
        while '"serving"' not in log.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise PageFaultError(f"the dashboard did not start: {log.read_text()[-2000:]}")
            time.sleep(0.1)
        yield f"http://{address}", process.pid
    finally:
        stop_child(process)


@contextlib.contextmanager
def _heartbeats(redis_url: str) -> Generator[None]:
    """Send heartbeats of a fleet during the block, after storing a day of their history."""
    now = time.time()
    with contextlib.closing(cast("Any", open_redis(redis_url)[0])) as client:
        client.flushall()
        for beat in _beats():
            process = "only" if beat.service == TrainerFigures.service else beat.worker
            with client.pipeline(transaction=False) as writes:
                for number in range(KEPT_NOTES):
                    at = now - (KEPT_NOTES - number) * NOTE_SECONDS
                    fields = note(beat.figures)
                    key = history_key(RUN, beat.service, process)
                    writes.xadd(key, fields, id=f"{round(1000 * at)}-0")
                writes.execute()
    stop = threading.Event()
    thread = threading.Thread(target=_beat_until, args=(redis_url, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _beat_until(redis_url: str, stop: threading.Event) -> None:
    with contextlib.closing(Heartbeats(redis_url, RUN)) as heartbeats:
        while not stop.wait(1.0):
            for beat in _beats():
                heartbeats.beat(beat)


def _beats() -> Iterator[Heartbeat]:
    """Yield a heartbeat of each process. The figures differ in each call, as in a real fleet."""
    progress = round(time.time())
    for name, figures in _figures():
        yield Heartbeat(name, progress, "", figures)


def _figures() -> Iterator[tuple[str, Figures]]:
    """Yield the name and the figures of each process."""
    some = random.Random().uniform
    for number in range(WORKERS):
        yield (
            f"worker-{number}",
            SelfplayFigures(
                games_per_hour=some(1000, 1200),
                positions_per_second=some(900, 1000),
                simulations_per_second=some(1300, 1500),
                training_positions_per_second=some(40, 50),
                cache_hit_rate=some(0.2, 0.3),
            ),
        )
    for number in range(REPLICAS):
        yield (
            f"replica-{number}",
            InferenceFigures(
                provider="cpu",
                precision="int8",
                model_version=199,
                rows_per_second=some(3500, 4000),
                capacity_rows_per_second=5000,
                batch_mean=some(100, 120),
                fill=some(0.4, 0.5),
                queue_wait_per_compute=some(0.5, 0.6),
                batches_by_rows=tuple(round(some(0, 50)) for _ in range(11)),
            ),
        )
    demand = DemandFigures(reuse_target=8, reuse=some(7, 8), samples_per_second=some(900, 1000))
    yield "trainer-0", TrainerFigures(positions=400_000, samples_per_position=8, demand=demand)
    yield "evaluator-0", EvaluatorFigures(match_in_play=True, match_games=7, match_most_games=40)


if __name__ == "__main__":
    run_main(main)
