"""A trainer and an inference service that share nothing but the stores and a bucket."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.fork_server import Fork
from tests.support.random_records import target_record
from zerofleet.client import Model
from zerofleet.config import load_run
from zerofleet.database import Database, Submission
from zerofleet.errors import InferenceUnavailableError
from zerofleet.games import spec
from zerofleet.local.processes import free_port
from zerofleet.models.session import ModelSession

pytestmark = pytest.mark.slow

NAME, SECRET = "bucket", "canary-of-the-bucket"
DEADLINE = 120.0
RUN_FILE = f"""
name = "{NAME}"
preset = "plain"
[game]
name = "tic_tac_toe"
[network]
blocks = 1
channels = 8
[trainer]
batch_size = 32
min_positions = 50
publish_every_steps = 5
metrics_every_steps = 1
[search]
num_simulations = 8
"""


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@dataclass
class Fleet:
    """Starts services; each has a disk of its own."""

    folder: Path
    environment: dict[str, str]
    database: Database

    @contextlib.contextmanager
    def start(self, service: str) -> Iterator[Fork]:
        machine = self.folder / service
        machine.mkdir(exist_ok=True)
        own = {
            "ZEROFLEET_MODEL_FOLDER": str(machine / "models"),
            "ZEROFLEET_CHECKPOINT_FOLDER": str(machine / "checkpoints"),
        }
        run_file, environment = self.folder / "run.toml", self.environment | own
        process = Fork(f"zerofleet.services.{service}", [run_file], environment, self.log(service))
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0
        finally:
            process.kill()
            process.wait()

    def log(self, service: str) -> Path:
        return self.folder / f"{service}.log"

    def versions(self) -> int:
        return len(self.database.models(NAME))

    def promote(self, epoch: int) -> None:
        head = self.database.promotion_head(NAME)
        seq = head.seq if head else 0
        self.database.promote(NAME, self.versions(), None, "test", seq, epoch=epoch)

    def submit(self, games: int) -> None:
        """Games whose every position is a target."""
        full = [Submission(target_record(seed)) for seed in range(games)]
        self.database.submit_games(NAME, "worker", full)

    def steps(self) -> int:
        [row] = self.database._rows("SELECT coalesce(max(step), 0) AS step FROM train_metrics")
        return row.step


@pytest.fixture
def fleet(
    s3: Any, credentials: Path, database_url: str, valkey_url: str, tmp_path: Path
) -> Iterator[Fleet]:
    (tmp_path / "run.toml").write_text(RUN_FILE)
    address = f"127.0.0.1:{free_port()}"
    environment = {
        "ZEROFLEET_DATABASE_URL": database_url,
        "ZEROFLEET_REDIS_URL": valkey_url,
        "ZEROFLEET_LISTEN_ADDRESS": address,
        "ZEROFLEET_MODEL_STORE": f"s3://models/{s3.prefix}",
        "ZEROFLEET_MODEL_STORE_ENDPOINT": s3.url,
        "ZEROFLEET_MODEL_STORE_CREDENTIALS": str(credentials),
    }
    with Database(database_url) as database:
        database.register_run(load_run(tmp_path / "run.toml"))
        yield Fleet(tmp_path, environment, database)


def answering_version(fleet: Fleet) -> int:
    """The version that answers now; 0 while none does."""
    rows = np.zeros((1, spec("tic_tac_toe").observation_bytes), np.uint8)
    with Model(fleet.environment["ZEROFLEET_LISTEN_ADDRESS"], NAME, timeout=1.0) as model:
        try:
            return model.predict(rows).model_version
        except InferenceUnavailableError:
            return 0


def test_models_travel_through_the_bucket(fleet: Fleet, s3: Any, open_bucket: Any) -> None:
    epoch = fleet.database.acquire_fence(NAME, "evaluator")
    with fleet.start("trainer"), contextlib.ExitStack() as inference:
        until(lambda: fleet.versions() == 1)
        fleet.promote(epoch)
        inference.enter_context(fleet.start("inference"))
        until(lambda: answering_version(fleet) == 1)

        # The bucket goes away: inference serves on, even after a restart, from its own disk, and
        # the trainer trains on without publishing.
        s3.stop()
        inference.close()
        inference.enter_context(fleet.start("inference"))
        until(lambda: answering_version(fleet) == 1)
        fleet.submit(100)
        until(lambda: "model_postponed" in fleet.log("trainer").read_text())
        until(lambda: fleet.steps() >= 10)
        assert fleet.versions() == 1

        # It comes back: what waited is published, and served once it is the best.
        s3.start()
        until(lambda: fleet.versions() >= 2)
        fleet.promote(epoch)
        until(lambda: answering_version(fleet) >= 2)

    reader = open_bucket(machine="reader")
    rows = fleet.database.models(NAME)
    assert rows[1].step >= 10
    for row in rows:
        assert row.location == reader.location(row.sha256)
        ModelSession(reader.read_verified(row.sha256), spec("tic_tac_toe"))
    kept = {path.stem for path in (s3.folder / "blobs").iterdir()}
    assert kept >= {row.sha256 for row in rows}
    for service in ("trainer", "inference"):
        assert SECRET not in fleet.log(service).read_text()
