"""Faults, one after the other, on a fleet that trains: is anything lost, when is all well again?

``python -m bench.chaos --rounds 100 --seed 7`` starts ``zerofleet up`` with two workers and a tiny
network, and in each round does one kind of harm to it, waits until games come in and the trainer
steps again, and compares what the workers noted with what Postgres has. The seed gives the sequence
of faults: every kind comes once before any comes again. Each round is a line of the file at once,
so a run that was cut off goes on behind its last round, with the same command. With ``--fleets 4``
four fleets side by side share the rounds, each with a seed and a file of its own. The table is of
all rounds of the files; the exit status is 1 when a promise was broken.
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

from bench.chaos_checks import Found, Watch
from bench.chaos_faults import KINDS, CannotError, own_disk
from bench.chaos_fleet import HurtFleet, NotInTimeError, eventually
from bench.report import WIDTH, Row, positive, run_main
from zerofleet import __version__
from zerofleet.errors import ConfigError, ZerofleetError

_AT_THE_END = "end of a fleet"
_FAILURES = (
    *(ZerofleetError, psycopg2.Error, psutil.Error, subprocess.SubprocessError),
    *(OSError, LookupError),
)
_HEADINGS = (
    "fault",
    "rounds",
    "games acknowledged",
    "missing",
    "twice",
    "gone",
    "adopted",
    "settled, median s",
    "longest s",
    "promises held",
)


def main(argv: Sequence[str] | None = None) -> None:
    """Do the rounds that the file lacks, and print the table."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the fleet goes with us
    options = parse(argv)
    shares = shared_out(options)
    failed = False
    if len(shares) == 1:
        do_rounds(*shares)
    else:
        processes = [
            Process(target=run_main, args=(partial(do_rounds, share),)) for share in shares
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


def shared_out(options: argparse.Namespace) -> list[argparse.Namespace]:
    """The options of each fleet: its seed, its file and its share of the rounds."""
    shares = []
    for number in range(options.fleets):
        seed = options.seed + number
        rounds = options.rounds // options.fleets + (number < options.rounds % options.fleets)
        out = options.out or Path(f"chaos-{seed}.jsonl")
        share = {"seed": seed, "rounds": rounds, "out": out}
        shares.append(argparse.Namespace(**{**vars(options), **share}))
    return shares


def do_rounds(options: argparse.Namespace) -> None:
    """Do the rounds that the file lacks, and write each to it."""
    rows = read_rows(options.out, options.seed)
    done = max((int(str(row["round"])) for row in rows), default=0)
    print(f"seed {options.seed}, {options.rounds} rounds, {done} of them in {options.out}")
    while done < options.rounds:
        last = min(done + options.fleet_rounds, options.rounds)
        for row in one_fleet(options, range(done + 1, last + 1)):
            done = max(done, int(str(row["round"])))
            with options.out.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(row)}\n")
            print(_line(row), flush=True)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    found = argparse.ArgumentParser(
        prog="python -m bench.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--rounds", type=positive(int), default=100, help="of the file [100]")
    found.add_argument("--seed", type=int, default=1, help="[1]")
    found.add_argument("--out", type=Path, help="a line of JSON a round [chaos-SEED.jsonl]")
    found.add_argument(
        "--fleets",
        type=positive(int),
        default=1,
        help="side by side, of the seeds SEED, SEED + 1, ... [1]",
    )
    found.add_argument("--kinds", nargs="+", metavar="KIND", default=list(KINDS), help="[all]")
    found.add_argument(
        "--fleet-rounds", type=positive(int), default=40, help="before a fleet is ended [40]"
    )
    found.add_argument(
        "--settle", type=positive(float), default=120.0, help="seconds until all is well [120]"
    )
    found.add_argument(
        "--longest-stop", type=positive(float), default=30.0, help="seconds of a STOP [30]"
    )
    options = found.parse_args(argv)
    if unknown := [kind for kind in options.kinds if kind not in KINDS]:
        found.error(f"no kind of fault is called {unknown}: there are {', '.join(KINDS)}")
    if options.out and options.fleets > 1:
        found.error("each of several fleets has a file of its own: leave out --out")
    return options


def read_rows(path: Path, seed: int) -> list[Row]:
    """The rounds that were done; a line that was cut off is none.

    Raises:
        ConfigError: they are of another seed.
    """
    rows: list[Row] = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):
                rows.append(json.loads(line))
    others = {row["seed"] for row in rows} - {seed}
    if others:
        raise ConfigError(f"{path} is of the seed {others.pop()}: give --seed or another --out")
    return rows


def fault_of(number: int, seed: int, kinds: Sequence[str]) -> str:
    """Which kind a round is of: the kinds are shuffled anew whenever all have had their turn."""
    deck, place = divmod(number - 1, len(kinds))
    return random.Random(f"{seed} deck {deck}").sample(list(kinds), len(kinds))[place]


def one_fleet(options: argparse.Namespace, numbers: Iterable[int]) -> Iterable[Row]:
    """A row for each round of a fresh fleet and one for its end; fewer when it does not settle."""
    with (
        tempfile.TemporaryDirectory(prefix="zerofleet-chaos-") as name,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        fleet = HurtFleet(folder, options.longest_stop)
        fleet.data.mkdir()
        fleet.has_own_disk = stack.enter_context(own_disk(fleet.data))
        stack.callback(fleet.kill)
        fleet.start()
        watch = Watch(fleet)
        eventually(lambda: fleet.has_ended or fleet.stored_games() > 50, "the first games", 120)
        if fleet.has_ended:
            raise NotInTimeError(f"`zerofleet up` has ended: {fleet.last_words()}")
        took, lacks = watch.settle(options.settle)
        if lacks:
            raise NotInTimeError(f"a fresh fleet does not settle in {took:.0f} s: {lacks}")
        number = 0
        for number in numbers:
            kind = fault_of(number, options.seed, options.kinds)
            row = {**_about(options, number, kind), **one_round(options, fleet, watch, number)}
            if row["broken"]:
                _keep_logs(fleet, options.out.with_suffix("") / f"round-{number}")
            yield row
            if row["settled_s"] is None:
                return
        try:
            found, note = end(fleet, watch)
        except _FAILURES as error:
            found, note = Found(broken=[f"{type(error).__name__}: {error}"]), ""
        row = Result(note, broken=found.broken, gone=found.gone, twice=found.twice)
        if found.broken:
            _keep_logs(fleet, options.out.with_suffix("") / f"end-after-{number}")
        yield {**_about(options, number, _AT_THE_END), **vars(row), "missing": found.missing}


@dataclass
class Result:
    """The figures of a round's row."""

    note: str = ""
    broken: list[str] | tuple[str, ...] = ()
    settled_s: float | None = None
    missing: int = 0
    twice: int = 0
    gone: int = 0
    adopted: int = 0
    acknowledged: int = 0
    skipped: str = ""


def one_round(options: argparse.Namespace, fleet: HurtFleet, watch: Watch, number: int) -> Row:
    """Harm, settling, comparison; the fields of ``Result``."""
    chance = random.Random(f"{options.seed} round {number}")
    kind = fault_of(number, options.seed, options.kinds)
    time.sleep(chance.uniform(1.0, 3.0))
    watch.ledger.read()
    acknowledged, adoptions = len(watch.ledger.answered), fleet.adoptions()
    result = Result()
    broken: list[str] = []
    try:
        result.note = KINDS[kind](fleet, chance)
    except CannotError as error:
        return vars(Result(skipped=str(error), settled_s=0.0))
    except _FAILURES as error:
        broken.append(f"{type(error).__name__}: {error}")
    try:
        if fleet.has_ended:
            broken.append(f"`up` ended by itself: {fleet.last_words()}")
            fleet.start()
    except NotInTimeError as error:
        broken.append(str(error))
    if kind == "dump restored" and not broken:
        watch.begin_anew()
        acknowledged = len(watch.ledger.answered)
    took, lacks = watch.settle(options.settle)
    if lacks:
        broken.append(f"not settled in {options.settle:g} s: {lacks}")
    else:
        result.settled_s = round(took, 1)
    try:
        found = watch.check()
        broken += found.broken
        result.missing, result.twice = found.missing, found.twice
    except _FAILURES as error:
        broken.append(f"could not be checked: {error}")
    result.broken = broken
    result.adopted = fleet.adoptions() - adoptions
    result.acknowledged = len(watch.ledger.answered) - acknowledged
    return vars(result)


def end(fleet: HurtFleet, watch: Watch) -> tuple[Found, str]:
    """Stop a fleet as a person does, and count what is left of games and processes."""
    status = fleet.stop()
    left = fleet.left_over()
    with fleet.stores_alone():
        found = watch.check_at_the_end()
    if status:
        found.broken.append(f"`up` ended with status {status}: {fleet.last_words()}")
    if left:
        found.broken.append(f"{len(left)} processes are left: {[each.cmdline() for each in left]}")
    return found, f"{len(watch.ledger.finished)} games finished, {found.stored} stored"


def _about(options: argparse.Namespace, number: int, kind: str) -> Row:
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "round": number,
        "seed": options.seed,
        "version": __version__,
        "at": at,
        "kind": kind,
    }


def _keep_logs(fleet: HurtFleet, place: Path) -> None:
    shutil.copytree(fleet.data / "logs", place, dirs_exist_ok=True)
    for log in (fleet.log, fleet.ledger, *fleet.data.glob("*/server.log*")):
        shutil.copyfile(log, place / f"{log.parent.name}-{log.name}")


def _line(row: Row) -> str:
    settled = "-" if row["settled_s"] is None else f"settled in {row['settled_s']} s"
    what = f"skipped: {row['skipped']}" if row["skipped"] else f"{row['note']}; {settled}"
    wrong = "".join(f"\n    BROKEN: {each}" for each in row["broken"])
    return f"{row['at']} {row['seed']:>3} {row['round']:>4} {row['kind']}: {what}{wrong}"


def show(rows: Sequence[Row]) -> None:
    """A line for each kind of fault, and one of all; Markdown, to be read and to be kept."""
    dates = sorted(str(row["at"])[:10] for row in rows)
    versions = ", ".join(sorted({str(row["version"]) for row in rows}))
    table = Table(box=box.MARKDOWN)
    for heading in _HEADINGS:
        table.add_column(heading, justify="left" if heading == "fault" else "right")
    kinds = [*KINDS, _AT_THE_END]
    for kind in kinds:
        if some := [row for row in rows if row["kind"] == kind]:
            table.add_row(kind, *_cells(some))
    table.add_row("all", *_cells(rows))
    console = Console(width=max(WIDTH, Console().width))
    seeds = ", ".join(str(seed) for seed in sorted({int(str(row["seed"])) for row in rows}))
    console.print(f"zerofleet {versions}, seed {seeds}, {dates[0]} to {dates[-1]}")
    console.print(table)
    for reason in sorted({f"{row['kind']}: {row['skipped']}" for row in rows if row["skipped"]}):
        console.print(f"skipped: {reason}")


def _cells(rows: Sequence[Row]) -> list[str]:
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
    held = sum(not each.broken for each in done)
    rounds = sum(row["kind"] != _AT_THE_END and not row["skipped"] for row in rows) or len(done)
    return [f"{rounds:,}", *(f"{each:,}" for each in sums), *times, f"{held:,} of {len(done):,}"]


if __name__ == "__main__":
    run_main(main)
