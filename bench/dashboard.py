"""The page over a database as a month's run leaves it: queries, CPU, first paint.

``python -m bench.dashboard --folder DIR`` fills a real Postgres (once: a folder that is filled is
taken as it is; 1,000,000 games with 20,000,000 positions take 8 GB and some minutes), starts
``zerofleet.services.dashboard`` over it with heartbeats, a day of their history and an inference
server whose network costs nothing, opens each page in Chromium, and reads in the server's log what
each statement of the page took. ``--fill-only`` ends when the database is there. Needs Debian's
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
# Values of a path's parameters, by name: a query for one that exists.
_SAMPLES = {
    "version": "SELECT max(version)::text FROM models",
    "uid": "SELECT max(game_uid::text) FROM games WHERE kind = 'selfplay'",
    "match_id": "SELECT max(match_id)::text FROM matches",
}


class PageFaultError(ZerofleetError):
    """A page that does not open, or a service that does not start."""


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parse(argv)
    workload: Workload = options.workload
    sizes = FilledRun(options.games, options.positions)
    if options.fill_only:
        options.fill_only.mkdir(parents=True, exist_ok=True)
        with filled(options.fill_only, workload, sizes):
            print(f"filled: {options.fill_only}", file=sys.stderr)
        return
    with contextlib.ExitStack() as stack:
        folder = options.folder or stack.enter_context(bench_folder())
        postgres = stack.enter_context(
            filled(folder, workload, sizes, {"log_min_duration_statement": "0"})
        )
        rows = measure(postgres, folder, options)
    show(rows, f"{workload.name}, the page", COLUMNS, as_json=options.json)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    found = parser("bench.dashboard", __doc__, game=False)
    game_option(found)
    found.add_argument("--games", type=positive(int), default=1_000_000, help="stored [1000000]")
    found.add_argument(
        "--positions", type=positive(int), default=20_000_000, help="kept, at most [20000000]"
    )
    found.add_argument("--pages", type=positive(int), default=20, help="open at once [20]")
    found.add_argument("--folder", type=Path, help="of the database, filled at the first time")
    found.add_argument("--fill-only", type=Path, metavar="FOLDER", help="fill it and end")
    return found.parse_args(argv)


def measure(postgres: EmbeddedPostgres, folder: Path, options: argparse.Namespace) -> list[Row]:
    """Each page alone, then the front page once and many times."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise ConfigError("there is no chromium here: apt-get install chromium")
    with (
        EmbeddedValkey(folder / "valkey") as valkey,
        _fleet(valkey.url()),
        serving(options.workload.game, None) as (_, inference),
        _served(postgres, valkey, inference, folder, options.workload) as (base, pid),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=list(_CHROMIUM))
        log = _Statements(folder / "postgres" / "server.log")
        rows = [_visited(browser, base, address, log, options) for address in _addresses(postgres)]
        seconds = options.seconds * options.blocks
        rows += [_cpu(browser, base, pid, count, seconds) for count in (0, 1, options.pages)]
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
                raise PageFaultError(f"{path}: say in _SAMPLES what {', '.join(unknown)} may be")
            address = path
            for name in names:
                cursor = connection.cursor()
                cursor.execute(_SAMPLES[name])
                address = address.replace(f"{{{name}}}", str(cursor.fetchall()[0][0]))
            if "{" not in address:
                addresses.append(address)
    return addresses


def _visited(
    browser: Browser, base: str, address: str, log: _Statements, options: argparse.Namespace
) -> Row:
    """Open a page some times, each time in a window that knows nothing yet."""
    print(f"{address} ...", file=sys.stderr, flush=True)
    log.take()
    paints: list[float] = []
    for _ in range(options.blocks):
        with contextlib.closing(browser.new_context()) as context:
            page = context.new_page()
            answer = page.goto(base + address, timeout=1000 * START_SECONDS)
            if answer is None or not answer.ok:
                raise PageFaultError(f"{address}: {answer and answer.status}")
            page.wait_for_timeout(1000 * options.seconds)
            paints.append(
                page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            )
    took = log.take()
    row: Row = {
        "page": address,
        "statements": len(took),
        "median_ms": statistics.median(took) if took else None,
        "p95_ms": sorted(took)[math.ceil(0.95 * len(took)) - 1] if took else None,
        "longest_ms": max(took, default=None),
        "first_paint_ms": statistics.median(paints),
    }
    print(row, file=sys.stderr, flush=True)  # the rest may take long, or fail
    return row


def _cpu(browser: Browser, base: str, pid: int, count: int, seconds: float) -> Row:
    """Return the service's CPU time while this many front pages are open."""
    print(f"open pages: {count} ...", file=sys.stderr, flush=True)
    # Tabs of one window, of which Chromium draws one: it is the service that is measured.
    with contextlib.closing(browser.new_context()) as context:
        for _ in range(count):
            context.new_page().goto(f"{base}/", timeout=1000 * START_SECONDS)
        time.sleep(min(5.0, seconds))
        began, spent = time.monotonic(), family_cpu_seconds(pid)
        time.sleep(seconds)
        share = (family_cpu_seconds(pid) - spent) / (time.monotonic() - began)
    return {"page": "/", "open_pages": count, "core_percent": 100 * share}


class _Statements:
    """Durations of queries in Postgres' log."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read = log.stat().st_size

    def take(self) -> list[float]:
        """Milliseconds of each since the last call."""
        with self._log.open("rb") as file:
            file.seek(self._read)
            said = file.read()
        self._read += len(said)
        return [float(found) for found in _STATEMENT.findall(said)]


@contextlib.contextmanager
def _served(
    postgres: EmbeddedPostgres,
    valkey: EmbeddedValkey,
    inference: str,
    folder: Path,
    workload: Workload,
) -> Generator[tuple[str, int]]:
    """The service: its address and its process."""
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
                raise PageFaultError(f"the dashboard does not start: {log.read_text()[-2000:]}")
            time.sleep(0.1)
        yield f"http://{address}", process.pid
    finally:
        stop_child(process)


@contextlib.contextmanager
def _fleet(redis_url: str) -> Generator[None]:
    """Processes that beat, and have done so all day."""
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
    ended = threading.Event()
    thread = threading.Thread(target=_beat_until, args=(redis_url, ended))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _beat_until(redis_url: str, ended: threading.Event) -> None:
    with contextlib.closing(Heartbeats(redis_url, RUN)) as heartbeats:
        while not ended.wait(1.0):
            for beat in _beats():
                heartbeats.beat(beat)


def _beats() -> Iterator[Heartbeat]:
    """Other figures each time, as those of a fleet are."""
    progress = round(time.time())
    for name, figures in _said():
        yield Heartbeat(name, progress, "", figures)


def _said() -> Iterator[tuple[str, Figures]]:
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
