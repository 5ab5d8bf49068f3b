"""Inject faults into a fleet that trains, and check that no game is lost and that it recovers.

``python -m bench.chaos --rounds 100 --seed 7`` starts ``zerofleet up`` with two workers and a tiny
network. Each round injects one fault. It then waits until games are stored and the trainer makes
steps again, and compares the workers' notes with Postgres.

The seed decides the sequence of faults. Every kind comes once before any kind comes again.

Each round is written to the file as soon as it ends, so an interrupted run resumes with the same
command. With ``--fleets 4`` four fleets share the rounds at the same time. Each fleet has its own
seed and file.

The table at the end covers all rounds in the files. The exit status is 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from multiprocessing import Process
from pathlib import Path

import psutil
import psycopg2
from rich import box
from rich.console import Console
from rich.table import Table

from bench.chaos_checks import Findings, Watch
from bench.chaos_faults import KINDS, UnsupportedFaultError, small_disk
from bench.chaos_fleet import ChaosFleet, NotInTimeError, eventually
from bench.report import WIDTH, Row, positive, run_main
from zerofleet import __version__
from zerofleet.errors import ConfigError, ZerofleetError

_END = "end of a fleet"  # kind of the row for the checks after a fleet has stopped
_FAILURES = (
    *(ZerofleetError, psycopg2.Error, psutil.Error, subprocess.SubprocessError),
    *(OSError, LookupError),
)
_HEADINGS = (
    "fault",
    "rounds",
    "games acknowledged",
    "missing",
    "stored twice",
    "lost unanswered",
    "adopted",
    "median s to settle",
    "longest s to settle",
    "promises kept",
)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the rounds that the files do not have yet, and print the table."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exception, so the fleet is stopped
    options = parse(argv)
    shares = share_rounds(options)
    failed = False
    if len(shares) == 1:
        run_rounds(*shares)
    else:
        processes = [
            Process(target=run_main, args=(partial(run_rounds, share),)) for share in shares
        ]
        try:
            for process in processes:
                process.start()
            for process in processes:
                process.join()
                failed |= bool(process.exitcode)
        finally:
            for process in processes:
                process.terminate()
                process.join()
    rows = [row for share in shares for row in read_rows(share.out, share.seed)]
    if rows:
        show(rows)
    if failed or any(row["broken"] for row in rows):
        sys.exit(1)


def share_rounds(options: argparse.Namespace) -> list[argparse.Namespace]:
    """Return the options of each fleet, with its own seed, file and share of the rounds."""
    shares = []
    for number in range(options.fleets):
        seed = options.seed + number
        rounds = options.rounds // options.fleets + (number < options.rounds % options.fleets)
        out = options.out or Path(f"chaos-{seed}.jsonl")
        share = {"seed": seed, "rounds": rounds, "out": out}
        shares.append(argparse.Namespace(**{**vars(options), **share}))
    return shares


def run_rounds(options: argparse.Namespace) -> None:
    """Run the rounds that the file ``options.out`` does not have yet, and append each to it.

    Raises:
        ConfigError: the file has rounds of another seed.
        NotInTimeError: a new fleet does not start or settle.
    """
    rows = read_rows(options.out, options.seed)
    done = max((int(str(row["round"])) for row in rows), default=0)
    print(f"seed {options.seed}: {options.rounds} rounds, {done} of them already in {options.out}")
    while done < options.rounds:
        last = min(done + options.fleet_rounds, options.rounds)
        for row in one_fleet(options, range(done + 1, last + 1)):
            done = max(done, int(str(row["round"])))
            with options.out.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(row)}\n")
            print(_line(row), flush=True)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--rounds",
        type=positive(int),
        default=100,
        help="number of rounds, including those already in the files [100]",
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the sequence of faults [1]")
    parser.add_argument(
        "--out", type=Path, help="file that gets a line of JSON for each round [chaos-SEED.jsonl]"
    )
    parser.add_argument(
        "--fleets",
        type=positive(int),
        default=1,
        help="number of fleets at the same time, with the seeds SEED, SEED + 1, ... [1]",
    )
    parser.add_argument(
        "--kinds", nargs="+", metavar="KIND", default=list(KINDS), help="kinds of faults [all]"
    )
    parser.add_argument(
        "--fleet-rounds",
        type=positive(int),
        default=40,
        help="rounds after which a new fleet is started [40]",
    )
    parser.add_argument(
        "--settle",
        type=positive(float),
        default=120.0,
        help="seconds within which a fleet must settle after a fault [120]",
    )
    parser.add_argument(
        "--longest-stop",
        type=positive(float),
        default=30.0,
        help="longest duration of a fault in seconds, such as a SIGSTOP; the shortest is 5 [30]",
    )
    options = parser.parse_args(argv)
    if unknown := [kind for kind in options.kinds if kind not in KINDS]:
        parser.error(f"unknown kinds of faults {unknown}: choose from {', '.join(KINDS)}")
    if options.out and options.fleets > 1:
        parser.error(
            "--out names one file, but each fleet has its own: leave out --out or --fleets"
        )
    return options


def read_rows(path: Path, seed: int) -> list[Row]:
    """Return the rows of a file, without a line that is incomplete; empty if there is no file.

    Raises:
        ConfigError: the rows have another seed.
    """
    rows: list[Row] = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):
                rows.append(json.loads(line))
    others = {row["seed"] for row in rows} - {seed}
    if others:
        raise ConfigError(
            f"{path} has rounds of seed {others.pop()}: pass that --seed or another --out"
        )
    return rows


def fault_of(number: int, seed: int, kinds: Sequence[str]) -> str:
    """Return the kind of fault of a round.

    Each time that all kinds have had their turn, they are shuffled again.

    Args:
        number: number of the round, from 1.
        seed: seed of the sequence.
        kinds: the kinds to choose from.
    """
    deck, index = divmod(number - 1, len(kinds))
    return random.Random(f"{seed} deck {deck}").sample(list(kinds), len(kinds))[index]


def one_fleet(options: argparse.Namespace, numbers: Iterable[int]) -> Iterable[Row]:
    """Start a new fleet, run rounds on it, and stop it.

    Args:
        options: the command line.
        numbers: numbers of the rounds.

    Yields:
        A row for each round, then one for the checks after the stop. If the fleet does not settle
        after a fault, the row of that round is the last one.

    Raises:
        NotInTimeError: the new fleet does not start or settle.
    """
    with (
        tempfile.TemporaryDirectory(prefix="zerofleet-chaos-") as name,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        fleet = ChaosFleet(folder, options.longest_stop)
        fleet.data.mkdir()
        fleet.has_own_disk = stack.enter_context(small_disk(fleet.data))
        stack.callback(fleet.kill)
        fleet.start()
        watch = Watch(fleet)
        eventually(lambda: fleet.has_ended or fleet.stored_games() > 50, "the first games", 120)
        if fleet.has_ended:
            raise NotInTimeError(f"`zerofleet up` has ended: {fleet.last_lines()}")
        took, problem = watch.settle(options.settle)
        if problem:
            raise NotInTimeError(f"a new fleet did not settle in {took:.0f} s: {problem}")
        number = 0
        for number in numbers:
            kind = fault_of(number, options.seed, options.kinds)
            row = {**_about(options, number, kind), **one_round(options, fleet, watch, number)}
            if row["broken"]:
                _copy_logs(fleet, options.out.with_suffix("") / f"round-{number}")
            yield row
            if row["settled_s"] is None:
                return
        try:
            found, note = end(fleet, watch)
        except _FAILURES as error:
            found, note = Findings(broken=[f"{type(error).__name__}: {error}"]), ""
        row = Result(note, broken=found.broken, gone=found.gone, twice=found.twice)
        if found.broken:
            _copy_logs(fleet, options.out.with_suffix("") / f"end-after-{number}")
        yield {**_about(options, number, _END), **vars(row), "missing": found.missing}


@dataclass
class Result:
    """Figures of a round, which are fields of its row.

    Args:
        note: what the fault did.
        broken: a message for each broken promise.
        settled_s: seconds until the fleet settled; None if it did not.
        missing: games that Postgres acknowledged but does not have.
        twice: games that were acknowledged as new more than once, or are stored under two uids.
        gone: finished games without an answer that are neither stored nor saved as unfinished.
        adopted: games that workers adopted in the round.
        acknowledged: games for which Postgres answered in the round.
        skipped: why the fault was not injected; empty if it was.
    """

    note: str = ""
    broken: list[str] | tuple[str, ...] = ()
    settled_s: float | None = None
    missing: int = 0
    twice: int = 0
    gone: int = 0
    adopted: int = 0
    acknowledged: int = 0
    skipped: str = ""


def one_round(options: argparse.Namespace, fleet: ChaosFleet, watch: Watch, number: int) -> Row:
    """Inject a fault, wait until the fleet settles, and check the promises.

    A fault that fails is reported as a broken promise.

    Args:
        options: the command line.
        fleet: a fleet that has settled.
        watch: the checks of this fleet.
        number: number of the round.

    Returns:
        The fields of ``Result``.
    """
    chance = random.Random(f"{options.seed} round {number}")
    kind = fault_of(number, options.seed, options.kinds)
    time.sleep(chance.uniform(1.0, 3.0))
    watch.ledger.read()
    acknowledged, adoptions = len(watch.ledger.answered), fleet.adoptions()
    result = Result()
    broken: list[str] = []
    try:
        result.note = KINDS[kind](fleet, chance)
    except UnsupportedFaultError as error:
        return vars(Result(skipped=str(error), settled_s=0.0))
    except _FAILURES as error:
        broken.append(f"{type(error).__name__}: {error}")
    try:
        if fleet.has_ended:
            broken.append(f"`up` ended by itself: {fleet.last_lines()}")
            fleet.start()
    except NotInTimeError as error:
        broken.append(str(error))
    if kind == "dump restored" and not broken:
        watch.reset()
        acknowledged = len(watch.ledger.answered)
    took, problem = watch.settle(options.settle)
    if problem:
        broken.append(f"not settled in {options.settle:g} s: {problem}")
    else:
        result.settled_s = round(took, 1)
    try:
        found = watch.check()
        broken += found.broken
        result.missing, result.twice = found.missing, found.twice
    except _FAILURES as error:
        broken.append(f"the checks failed: {error}")
    result.broken = broken
    result.adopted = fleet.adoptions() - adoptions
    result.acknowledged = len(watch.ledger.answered) - acknowledged
    return vars(result)


def end(fleet: ChaosFleet, watch: Watch) -> tuple[Findings, str]:
    """Stop a fleet as Ctrl-C does, and check games, exit status and remaining processes.

    Returns:
        The findings, and a note with the numbers of finished and stored games.

    Raises:
        NotInTimeError: ``up`` does not end.
        psycopg2.Error, KeyError, ZerofleetError: a store does not answer.
    """
    status = fleet.stop()
    left = fleet.left_over()
    with fleet.only_stores():
        found = watch.check_at_the_end()
    if status:
        found.broken.append(f"`up` ended with status {status}: {fleet.last_lines()}")
    if left:
        found.broken.append(f"{len(left)} processes still run: {[each.cmdline() for each in left]}")
    return found, f"{len(watch.ledger.finished)} games finished, {found.stored} stored"


def _about(options: argparse.Namespace, number: int, kind: str) -> Row:
    """Return the fields of a row that describe the round."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "round": number,
        "seed": options.seed,
        "version": __version__,
        "at": at,
        "kind": kind,
    }


def _copy_logs(fleet: ChaosFleet, target: Path) -> None:
    """Copy the logs of all services and stores, and the ledger, into the folder ``target``."""
    shutil.copytree(fleet.data / "logs", target, dirs_exist_ok=True)
    for log in (fleet.log, fleet.ledger, *fleet.data.glob("*/server.log*")):
        shutil.copyfile(log, target / f"{log.parent.name}-{log.name}")


def _line(row: Row) -> str:
    settled = "-" if row["settled_s"] is None else f"settled in {row['settled_s']} s"
    outcome = f"skipped: {row['skipped']}" if row["skipped"] else f"{row['note']}; {settled}"
    broken = "".join(f"\n    BROKEN: {each}" for each in row["broken"])
    return f"{row['at']} {row['seed']:>3} {row['round']:>4} {row['kind']}: {outcome}{broken}"


def show(rows: Sequence[Row]) -> None:
    """Print a Markdown table with a line for each kind of fault and one for all rounds."""
    dates = sorted(str(row["at"])[:10] for row in rows)
    versions = ", ".join(sorted({str(row["version"]) for row in rows}))
    table = Table(box=box.MARKDOWN)
    for heading in _HEADINGS:
        table.add_column(heading, justify="left" if heading == "fault" else "right")
    kinds = [*KINDS, _END]
    for kind in kinds:
        if of_kind := [row for row in rows if row["kind"] == kind]:
            table.add_row(kind, *_cells(of_kind))
    table.add_row("all", *_cells(rows))
    console = Console(width=max(WIDTH, Console().width))
    seeds = ", ".join(str(seed) for seed in sorted({int(str(row["seed"])) for row in rows}))
    console.print(f"zerofleet {versions}, seed {seeds}, {dates[0]} to {dates[-1]}")
    console.print(table)
    for reason in sorted({f"{row['kind']}: {row['skipped']}" for row in rows if row["skipped"]}):
        console.print(f"skipped: {reason}")


def _cells(rows: Sequence[Row]) -> list[str]:
    """Return the cells of these rows together, without the cell of the kind."""
    done = [Result(**{name: row[name] for name in vars(Result())}) for row in rows]
    done = [each for each in done if not each.skipped]
    if not done:
        return ["skipped", *["-"] * (len(_HEADINGS) - 2)]
    settled = [each.settled_s for each in done if each.settled_s is not None]
    sums = [
        sum(getattr(each, name) for each in done)
        for name in ("acknowledged", "missing", "twice", "gone", "adopted")
    ]
    times = (f"{statistics.median(settled):.1f}", f"{max(settled):.1f}") if settled else ("-", "-")
    kept = sum(not each.broken for each in done)
    rounds = sum(row["kind"] != _END and not row["skipped"] for row in rows) or len(done)
    return [f"{rounds:,}", *(f"{each:,}" for each in sums), *times, f"{kept:,} of {len(done):,}"]


if __name__ == "__main__":
    run_main(main)
