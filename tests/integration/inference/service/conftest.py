"""Real stores, a folder of models, and inference processes over them."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.fork_server import Fork
from zerofleet import games
from zerofleet.config import RunConfig, load_run
from zerofleet.database import Database
from zerofleet.fleet.heartbeat import Heartbeat, Heartbeats
from zerofleet.local.processes import free_port
from zerofleet.models.folder import ModelFolder
from zerofleet.models.graph import Shape

GAME = "connect_four"


@dataclass
class Fleet:
    """Stores, a folder of models, and inference processes over them."""

    run_file: Path
    run: RunConfig
    database: Database
    database_url: str
    redis_url: str
    folder: ModelFolder
    make_marker: Any
    port: int = field(default_factory=free_port)
    metrics_port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        self.database.register_run(self.run)
        self.epoch = self.database.acquire_fence(self.run.name, "trainer")
        self.evaluator_epoch = self.database.acquire_fence(self.run.name, "evaluator")
        self.address = f"127.0.0.1:{self.port}"

    def publish(
        self, version: int, *, promote: bool = True, damage: int = 0, broken: bool = False
    ) -> None:
        spec = games.spec(GAME)
        shape = Shape(spec.observation_bytes, spec.num_actions)
        content = self.make_marker(version, shape, broken=broken)
        sha256 = hashlib.sha256(content).hexdigest()
        self.folder.publish(self.folder.stage(content))
        if damage:
            path = self.folder.path(sha256)
            path.chmod(0o644)
            path.write_bytes(content[:-damage])
        self.database.insert_model(self.run.name, version, sha256, version, {}, "", self.epoch)
        if promote:
            self.promote(version)

    def promote(self, version: int) -> None:
        head = self.database.promotion_head(self.run.name)
        seq = head.seq if head else 0
        self.database.promote(self.run.name, version, None, "test", seq, epoch=self.evaluator_epoch)

    def environment(self) -> dict[str, str]:
        return {
            "ZEROFLEET_DATABASE_URL": self.database_url,
            "ZEROFLEET_REDIS_URL": self.redis_url,
            "ZEROFLEET_LISTEN_ADDRESS": self.address,
            "ZEROFLEET_METRICS_ADDRESS": f"127.0.0.1:{self.metrics_port}",
            "ZEROFLEET_MODEL_FOLDER": str(self.folder.root),
            "ZEROFLEET_WORKER": "inference-1",
            "ZEROFLEET_REFLECTION": "true",
        }

    @contextlib.contextmanager
    def start(self, **changes: str) -> Iterator[Fork]:
        log = self.run_file.with_name("inference.log")
        process = Fork(
            "zerofleet.services.inference", [self.run_file], self.environment() | changes, log
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def refusal(self, **changes: str) -> str:
        """Return the message of a process that cannot start; it must be one line."""
        with self.start(**changes) as process:
            status = process.wait(120)
        assert status == 2, process.output()
        (line,) = [line for line in process.output().splitlines() if not line.startswith("{")]
        return line

    def heartbeat(self) -> Heartbeat | None:
        beats = Heartbeats(self.redis_url, self.run.name)
        with contextlib.closing(beats):
            return next(iter(beats.read()), None)


@pytest.fixture
def fleet(tmp_path: Path, database_url: str, valkey_url: str, make_marker: Any) -> Iterator[Fleet]:
    run_file = tmp_path / "run.toml"
    run_file.write_text(
        f'name = "serving"\n[game]\nname = "{GAME}"\n[inference]\nmax_batch_rows = 128\n'
        "sessions = 2\n[search]\nnum_simulations = 30\n[evaluator]\nnum_simulations = 40\n"
        "[rating]\nnum_simulations = 20\n"
    )
    run = load_run(run_file)
    folder = ModelFolder(tmp_path / "models", run.name)
    with Database(database_url) as database:
        yield Fleet(run_file, run, database, database_url, valkey_url, folder, make_marker)
