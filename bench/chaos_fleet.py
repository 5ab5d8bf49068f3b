"""A fleet for fault injection: start and stop ``zerofleet up``, find its processes and stores."""

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
"""Program of each store by the store's name."""

# With these sizes a model is published and evaluated every few seconds. Self-play pauses when it is
# far ahead of the trainer, or it would fill the disk. Few samples per position make pauses rare.
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
    """A condition did not become true before its timeout."""


def eventually(condition: Callable[[], object], what: str, seconds: float = 120.0) -> None:
    """Wait until a condition is true.

    Args:
        condition: is called about ten times per second.
        what: noun phrase for the error message, such as "more games".
        seconds: timeout.

    Raises:
        NotInTimeError: the condition is not true after ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise NotInTimeError(f"timed out after {seconds:g} s waiting for {what}")
        time.sleep(0.1)


def lower_priority(processes: Iterable[psutil.Process]) -> None:
    """Lower the priority of busy processes, so that other processes start faster.

    Linux has a priority for each thread, and one for each autogroup, which is a session.
    """
    for process in processes:
        with contextlib.suppress(psutil.Error, OSError):
            for thread in process.threads():
                os.setpriority(os.PRIO_PROCESS, thread.id, _NICE)
        with contextlib.suppress(OSError):
            Path(f"/proc/{process.pid}/autogroup").write_text(str(_NICE), encoding="ascii")


class ChaosFleet:
    """A fleet with two workers and its own data folder.

    Args:
        folder: existing folder for the data folder ``data``, the workers' audit file ``ledger`` and
            the output ``up.log``.
        longest_stop: the longest duration of a fault in seconds, such as a SIGSTOP.
    """

    def __init__(self, folder: Path, longest_stop: float = 30.0) -> None:
        self.data = folder / "data"
        self.ledger = folder / "ledger"
        self.log = folder / "up.log"
        self.longest_stop = longest_stop
        self.has_own_disk = False
        """Whether the data folder is a small file system of its own, which a fault may fill."""
        self.restored: set[str] = set()
        """Uids of the games in Postgres after the last dump was restored."""
        self.restored_lines = 0
        """Number of lines in the ledger when the last dump was restored."""
        self._up: subprocess.Popen[bytes] | None = None
        self._stores: Running | None = None

    def start(self, environment: dict[str, str] | None = None) -> None:
        """Start ``zerofleet up``, which resumes the run, and wait for the stores.

        Returns also if ``up`` ends before its stores run.

        Args:
            environment: environment variables to add to ours, for ``up`` and its children.

        Raises:
            NotInTimeError: the stores are not up within 120 s.
        """
        audit = {"ZEROFLEET_SELFPLAY_AUDIT": str(self.ledger)}
        settings = [part for setting in _SMALL for part in ("--set", setting)]
        arguments = ["up", str(RUN_FILE), "--data", str(self.data), "--workers", str(WORKERS)]
        with self.log.open("ab") as output:
            self._up = subprocess.Popen(
                [sys.executable, "-P", "-m", "zerofleet.cli", *arguments, *settings],
                env={**os.environ, **audit, **(environment or {})},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        eventually(lambda: self.has_ended or self.urls(), "the stores", _START_SECONDS)

    @property
    def process(self) -> psutil.Process:
        """Process of ``zerofleet up``."""
        assert self._up is not None
        return psutil.Process(self._up.pid)

    @property
    def has_ended(self) -> bool:
        """Whether ``up`` has ended or was never started."""
        return self._up is None or self._up.poll() is not None

    def wait(self) -> int:
        """Wait until ``up`` has ended.

        Returns:
            Its exit status; negative for the signal that ended it.

        Raises:
            NotInTimeError: it has not ended after 120 s.
        """
        eventually(lambda: self.has_ended, "the end of `up`", _STOP_SECONDS)
        assert self._up is not None
        return self._up.wait()

    def stop(self) -> int:
        """Stop ``up`` with SIGINT, as Ctrl-C does, and return its exit status.

        Raises:
            NotInTimeError: it has not ended after 120 s.
        """
        if not self.has_ended:
            self.process.send_signal(signal.SIGINT)
        return self.wait()

    def kill(self) -> None:
        """Kill all processes of the fleet."""
        for process in {*(() if self.has_ended else self.family()), *self.left_over()}:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if self._up is not None:
            self._up.wait()

    def left_over(self) -> list[psutil.Process]:
        """Return the processes of this machine that name the fleet's data folder or ledger.

        The command line or the variable ``ZEROFLEET_SELFPLAY_AUDIT`` names it. Zombies and this
        process do not count.
        """
        data = str(self.data)
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                is_ours = process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE
                words = [*process.cmdline(), process.environ().get("ZEROFLEET_SELFPLAY_AUDIT", "")]
                if is_ours and any(data in word or str(self.ledger) in word for word in words):
                    found.append(process)
        return found

    def family(self) -> list[psutil.Process]:
        """Return ``up`` and all its descendants; empty if ``up`` has ended."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return [self.process, *self.process.children(recursive=True)]
        return []

    def processes(self, name: str) -> list[psutil.Process]:
        """Return the processes with a name.

        Args:
            name: a service, a store, ``up``, or ``all`` for the whole fleet. The server process of
                a store comes first.
        """
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
        """Return Postgres' URL by role, and Redis' as ``redis``; empty while no store runs."""
        if self._stores is not None:
            return {**self._stores.database_urls, "redis": self._stores.redis_url}
        with contextlib.suppress(OSError, ValueError, AssertionError, psutil.Error):
            running = json.loads((self.data / "running.json").read_text())
            if running["pid"] == self.process.pid:
                return {**running["database_urls"], "redis": running["redis_url"]}
        return {}

    @contextlib.contextmanager
    def only_stores(self) -> Generator[Running]:
        """Run the stores of a stopped fleet, without services, during the block.

        Raises:
            ConfigError: another command uses the data folder and does not become ready.
        """
        with joined(DataFolder.open(self.data), "chaos") as self._stores:
            try:
                yield self._stores
            finally:
                self._stores = None

    def query(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a query in Postgres as the database's owner, and return its rows.

        Raises:
            psycopg2.Error: Postgres does not answer, or the query fails.
            KeyError: no store runs.
        """
        with self._executed(text, values) as cursor:
            return cursor.fetchall()

    def change(self, text: str, *values: object) -> None:
        """Run a statement in Postgres as the database's owner, and commit it.

        Raises:
            psycopg2.Error: Postgres does not answer, or the statement fails.
            KeyError: no store runs.
        """
        with self._executed(text, values):
            pass

    @contextlib.contextmanager
    def _executed(self, text: str, values: Sequence[object]) -> Generator[Any]:
        """Run a statement as the database's owner, and commit it at the end of the block."""
        with (
            contextlib.closing(connect(self.urls()["owner"])) as connection,
            connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(text, values or None)
            yield cursor

    def stored_games(self, worker: str | None = None) -> int:
        """Return the number of stored games; 0 while Postgres does not answer.

        Args:
            worker: counts the games of this worker; None for all games of self-play.
        """
        condition = "worker = %s" if worker else "kind = 'selfplay'"
        with contextlib.suppress(psycopg2.Error, KeyError):
            values = [worker] if worker else []
            [(count,)] = self.query(f"SELECT count(*) FROM games WHERE {condition}", *values)
            return count
        return 0

    def start_another(
        self, service: str, ports: dict[int, int] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start one more process of a service, with the environment of a running one.

        Args:
            service: a service that runs.
            ports: ports to replace in the addresses of Postgres, Redis and inference: the new port
                by the old one.
        """
        environment = self.processes(service)[0].environ()
        environment["ZEROFLEET_METRICS_ADDRESS"] = f"{LOOPBACK}:{free_port()}"
        for key in ("ZEROFLEET_DATABASE_URL", "ZEROFLEET_REDIS_URL", "ZEROFLEET_INFERENCE_ADDRESS"):
            for old, new in (ports or {}).items():
                value = environment[key]
                environment[key] = value.replace(f"{LOOPBACK}:{old}", f"{LOOPBACK}:{new}")
        with (self.data / "logs" / f"{service}-by-hand.log").open("ab") as output:
            return subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    f"zerofleet.services.{service}",
                    str(self.data / "run.toml"),
                ],
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def last_lines(self) -> str:
        """Return the last three lines that ``up`` printed, joined by slashes."""
        return " / ".join(self.log.read_text(errors="replace").splitlines()[-3:])

    def port(self, store: str) -> int:
        """Return the port that workers use for ``postgres``, ``redis`` or ``inference``."""
        key = {"postgres": "DATABASE_URL", "redis": "REDIS_URL", "inference": "INFERENCE_ADDRESS"}
        address = self.processes("selfplay")[0].environ()[f"ZEROFLEET_{key[store]}"]
        match = re.search(rf"{re.escape(LOOPBACK)}:(\d+)", address)
        assert match is not None, store
        return int(match.group(1))

    def adoptions(self) -> int:
        """Return how many games workers have adopted so far, by their logs."""
        texts = [log.read_text(errors="replace") for log in self.data.glob("logs/selfplay*.log")]
        lines = [line for text in texts for line in text.splitlines() if "games_adopted" in line]
        matches = [re.search(r"games\"?[=:] ?(\d+)", line) for line in lines]
        return sum(int(match.group(1)) for match in matches if match)
