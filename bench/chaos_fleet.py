"""A fleet of ``zerofleet up`` that is to be hurt: how it starts, where its processes are."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

import psutil
import psycopg2

from zerofleet.config import load_run
from zerofleet.database.connection import connect
from zerofleet.errors import ZerofleetError
from zerofleet.local.data_folder import DataFolder
from zerofleet.local.processes import LOOPBACK, free_port
from zerofleet.local.stores import Running, joined

RUN_FILE = Path(__file__).resolve().parents[1] / "runs" / "connect_four.toml"
NAME = load_run(RUN_FILE).name
SERVICES = ("selfplay", "inference", "trainer", "evaluator", "dashboard")
COMPUTING = ("selfplay", "inference", "trainer")
WORKERS = 2
STORES = {"postgres": "postgres", "redis": "valkey-server"}
"""Name of the program of each store."""

# Small enough that a model is published and judged every few seconds; the trainer takes so little
# of each game that self-play, which would fill the disk, seldom waits for it.
_SMALL = (
    "preset=plain",
    "rating.games=0",
    "network.blocks=1",
    "network.channels=8",
    "search.num_simulations=16",
    "selfplay.save_every_plies=4",
    "selfplay.lease_seconds=2",
    "selfplay.games_per_engine=32",
    "selfplay.max_ahead_positions=3000",
    "selfplay.restart_share=0.2",
    "trainer.samples_per_position=2",
    "trainer.min_positions=500",
    "trainer.publish_every_steps=20",
    "trainer.checkpoint_every_steps=20",
    "evaluator.gate=true",
    "evaluator.games=8",
    "evaluator.num_simulations=8",
    "evaluator.threshold=0.3",
    "exam.positions=10",
    "exam.num_simulations=8",
)
_NICE = 15
_START_SECONDS = 120.0
_STOP_SECONDS = 120.0


class NotInTimeError(ZerofleetError):
    """Something that must happen has not."""


def eventually(condition: Callable[[], object], what: str, seconds: float = 120.0) -> None:
    """Wait for a condition.

    Raises:
        NotInTimeError: it did not hold in time; the message names what was waited for.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise NotInTimeError(f"not in {seconds:g} s: {what}")
        time.sleep(0.1)


def let_others_pass(processes: Iterable[psutil.Process]) -> None:
    """Lower the priority of busy processes, so that starting ones, and rounds, take less time.

    Linux knows a priority for each thread, and, between sessions, one for each of its autogroups.
    """
    for process in processes:
        with contextlib.suppress(psutil.Error, OSError):
            for thread in process.threads():
                os.setpriority(os.PRIO_PROCESS, thread.id, _NICE)
        with contextlib.suppress(OSError):
            Path(f"/proc/{process.pid}/autogroup").write_text(str(_NICE), encoding="ascii")


class HurtFleet:
    """A fleet with two workers in a folder of its own, and the workers' ledger beside it.

    Args:
        folder: made by the caller; the data folder is ``folder/data``.
        longest_stop: seconds that a stopped process stands still at most.
    """

    def __init__(self, folder: Path, longest_stop: float = 30.0) -> None:
        self.data = folder / "data"
        self.ledger = folder / "ledger"
        self.log = folder / "up.log"
        self.longest_stop = longest_stop
        self.has_own_disk = False
        """Whether the data folder is a small file system that may be filled."""
        self.restored: set[str] = set()
        """The games that the last dump brought back ..."""
        self.restored_lines = 0
        """... and how many lines the ledger had then."""
        self._up: subprocess.Popen[bytes] | None = None
        self._alone: Running | None = None

    def start(self, environment: dict[str, str] | None = None) -> None:
        """Start ``zerofleet up``; it goes on where it was.

        Args:
            environment: of it and of all that it starts, beside our own.

        Raises:
            NotInTimeError: its stores are not up in time.
        """
        audit = {"ZEROFLEET_SELFPLAY_AUDIT": str(self.ledger)}
        settings = [part for setting in _SMALL for part in ("--set", setting)]
        where = ["up", str(RUN_FILE), "--data", str(self.data), "--workers", str(WORKERS)]
        with self.log.open("ab") as output:
            self._up = subprocess.Popen(
                [sys.executable, "-P", "-m", "zerofleet.cli", *where, *settings],
                env={**os.environ, **audit, **(environment or {})},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        eventually(lambda: self.has_ended or self.urls(), "the stores are up", _START_SECONDS)

    @property
    def process(self) -> psutil.Process:
        """``zerofleet up`` itself."""
        assert self._up is not None
        return psutil.Process(self._up.pid)

    @property
    def has_ended(self) -> bool:
        """Whether ``up`` has ended."""
        return self._up is None or self._up.poll() is not None

    def wait(self) -> int:
        """Wait until ``up`` has ended; its exit status.

        Raises:
            NotInTimeError: it has not in time.
        """
        eventually(lambda: self.has_ended, "`up` ends", _STOP_SECONDS)
        assert self._up is not None
        return self._up.wait()

    def stop(self) -> int:
        """End it as a person does; its exit status."""
        if not self.has_ended:
            self.process.send_signal(signal.SIGINT)
        return self.wait()

    def kill(self) -> None:
        """End whatever is left of it."""
        for process in {*(() if self.has_ended else self.family()), *self.left_over()}:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if self._up is not None:
            self._up.wait()

    def left_over(self) -> list[psutil.Process]:
        """Processes on this machine that belong to the fleet's folder."""
        place = str(self.data)
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                is_ours = process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE
                words = [*process.cmdline(), process.environ().get("ZEROFLEET_SELFPLAY_AUDIT", "")]
                if is_ours and any(place in word or str(self.ledger) in word for word in words):
                    found.append(process)
        return found

    def family(self) -> list[psutil.Process]:
        """``up`` and all that runs under it."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return [self.process, *self.process.children(recursive=True)]
        return []

    def processes(self, name: str) -> list[psutil.Process]:
        """Return the processes of a service or a store, the server first; of ``up``; or all."""
        if name == "up":
            return [self.process]
        if name == "all":
            return self.family()
        found = []
        for process in self.family():
            with contextlib.suppress(psutil.Error):
                is_store = process.name() == STORES.get(name)
                if is_store or f"zerofleet.services.{name}" in process.cmdline():
                    found.append(process)
        return found

    def urls(self) -> dict[str, str]:
        """Where the stores are: Postgres by role, and ``redis``; empty while none runs."""
        if self._alone is not None:
            return {**self._alone.database_urls, "redis": self._alone.redis_url}
        with contextlib.suppress(OSError, ValueError, AssertionError, psutil.Error):
            running = json.loads((self.data / "running.json").read_text())
            if running["pid"] == self.process.pid:
                return {**running["database_urls"], "redis": running["redis_url"]}
        return {}

    @contextlib.contextmanager
    def stores_alone(self) -> Generator[Running]:
        """The stores of a fleet that was stopped, for as long as this is entered."""
        with joined(DataFolder.open(self.data), "chaos") as self._alone:
            try:
                yield self._alone
            finally:
                self._alone = None

    def query(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows of a query to Postgres, as its owner.

        Raises:
            psycopg2.Error, KeyError: it does not answer.
        """
        with self._executed(text, values) as cursor:
            return cursor.fetchall()

    def change(self, text: str, *values: object) -> None:
        """Run a statement in Postgres, as its owner, and commit it.

        Raises:
            psycopg2.Error, KeyError: Postgres does not answer.
        """
        with self._executed(text, values):
            pass

    @contextlib.contextmanager
    def _executed(self, text: str, values: Sequence[object]) -> Generator[Any]:
        """Run a statement as Postgres' owner; it is committed when the block ends."""
        with (
            contextlib.closing(connect(self.urls()["owner"])) as connection,
            connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(text, values or None)
            yield cursor

    def stored_games(self, worker: str | None = None) -> int:
        """Games of self-play, or of one worker, that Postgres has; 0 while it does not answer."""
        whose = "worker = %s" if worker else "kind = 'selfplay'"
        with contextlib.suppress(psycopg2.Error, KeyError):
            values = [worker] if worker else []
            [(count,)] = self.query(f"SELECT count(*) FROM games WHERE {whose}", *values)
            return count
        return 0

    def by_hand(self, service: str, ports: dict[int, int] | None = None) -> subprocess.Popen[bytes]:
        """Start one more of a service, as a person would, with what the running one was told.

        Args:
            service: one of it runs.
            ports: of the addresses that it is told: the one to take in place of another.
        """
        told = self.processes(service)[0].environ()
        told["ZEROFLEET_METRICS_ADDRESS"] = f"{LOOPBACK}:{free_port()}"
        for key in ("ZEROFLEET_DATABASE_URL", "ZEROFLEET_REDIS_URL", "ZEROFLEET_INFERENCE_ADDRESS"):
            for old, new in (ports or {}).items():
                told[key] = told[key].replace(f"{LOOPBACK}:{old}", f"{LOOPBACK}:{new}")
        with (self.data / "logs" / f"{service}-by-hand.log").open("ab") as output:
            return subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    f"zerofleet.services.{service}",
                    str(self.data / "run.toml"),
                ],
                env=told,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def last_words(self) -> str:
        """The last lines that ``up`` wrote."""
        return " / ".join(self.log.read_text(errors="replace").splitlines()[-3:])

    def port(self, store: str) -> int:
        """The port of ``postgres``, ``redis`` or ``inference``."""
        key = {"postgres": "DATABASE_URL", "redis": "REDIS_URL", "inference": "INFERENCE_ADDRESS"}
        told = self.processes("selfplay")[0].environ()[f"ZEROFLEET_{key[store]}"]
        found = re.search(rf"{re.escape(LOOPBACK)}:(\d+)", told)
        assert found is not None, store
        return int(found.group(1))

    def adoptions(self) -> int:
        """Games that workers took over so far, as they wrote in their logs."""
        texts = [log.read_text(errors="replace") for log in self.data.glob("logs/selfplay*.log")]
        lines = [line for text in texts for line in text.splitlines() if "games_adopted" in line]
        found = [re.search(r"games\"?[=:] ?(\d+)", line) for line in lines]
        return sum(int(match.group(1)) for match in found if match)
