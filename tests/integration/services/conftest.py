"""Whole services as processes over real stores, with tiny real models."""

import hashlib
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support.fork_server import Fork
from zerofleet import games
from zerofleet.config import RunConfig, load_run
from zerofleet.database import Database, Variant, migrate
from zerofleet.exam import position_kinds
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.fleet.report import work_words
from zerofleet.local.data_folder import DataFolder
from zerofleet.local.processes import free_port
from zerofleet.local.stores import Stores
from zerofleet.models.folder import ModelFolder

ROOT = Path(__file__).resolve().parents[3]
DEADLINE = 240.0
# Each service gets only the rights of its role.
ROLES = {"inference": "worker", "selfplay": "worker", "evaluator": "evaluator"}


def tiny_model(game: str, version: int, seed: int, *, name: str = "", wild: float = 1.0) -> bytes:
    """A linear model; models with the same ``seed`` play the same.

    A ``wild`` factor far above 1 makes its arbitrary policy and value so certain that no search
    corrects it.
    """
    spec = games.spec(game)
    generator = np.random.default_rng(seed)
    policy = generator.normal(size=(spec.observation_bytes, spec.num_actions))
    constants = {
        "policy_weights": policy * wild / 100,
        "value_weights": generator.normal(size=(spec.observation_bytes, 1)) * wild / 500,
    }
    initializers = [
        numpy_helper.from_array(array.astype(np.float32), name) for name, array in constants.items()
    ]
    initializers.append(numpy_helper.from_array(np.array([-1], np.int64), "flat"))
    nodes = [
        helper.make_node("Cast", ["observation"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["floats", "policy_weights"], ["logits"]),
        helper.make_node("Cast", ["logits"], ["policy_logits"], to=TensorProto.FLOAT16),
        helper.make_node("MatMul", ["floats", "value_weights"], ["column"]),
        helper.make_node("Tanh", ["column"], ["squashed"]),
        helper.make_node("Reshape", ["squashed", "flat"], ["value"]),
    ]
    tensors = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in (
            ("observation", TensorProto.UINT8, ["batch", spec.observation_bytes]),
            ("policy_logits", TensorProto.FLOAT16, ["batch", spec.num_actions]),
            ("value", TensorProto.FLOAT, ["batch"]),
        )
    ]
    graph = helper.make_graph(nodes, "tiny", tensors[:1], tensors[1:], initializers)
    model: onnx.ModelProto = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
        doc_string=f"version {version} {name}",  # gives each model a sha256 of its own
    )
    return model.SerializeToString()


def stopped_run(root: Path, run_file: Path) -> DataFolder:
    """Make a data folder with embedded stores, whose run has one model and is stopped.

    Args:
        root: the folder's path; Postgres' user may enter it.
        run_file: the run file to copy.
    """
    run = load_run(run_file)
    folder = DataFolder.for_run(root, run)
    folder.keep_run_file(run_file, run)
    models = ModelFolder(folder.models, run.name)
    content = tiny_model(run.game.name, 1, 0)
    models.publish(models.stage(content))
    sha256 = hashlib.sha256(content).hexdigest()
    with folder.hold("up"), Stores(folder) as stores:
        migrate(stores.urls.database["owner"])
        with Database(stores.urls.database["owner"]) as database:
            database.register_run(run)
            epoch = database.acquire_fence(run.name, "trainer")
            database.insert_model(run.name, 1, sha256, 1, {}, models.location(sha256), epoch)
            epoch = database.acquire_fence(run.name, "evaluator")
            database.promote(run.name, 1, None, "test", 0, epoch=epoch)
    return folder


@dataclass
class Fleet:
    """One run: its stores, its models, and the processes that a test starts."""

    run: RunConfig
    run_file: Path
    database: Database
    environment: dict[str, str]
    models: ModelFolder
    epoch: int
    urls: dict[str, str]  # database URLs by service
    processes: list[Fork] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.heartbeats = Heartbeats(self.environment["ZEROFLEET_REDIS_URL"], self.run.name)

    def publish(
        self,
        version: int,
        seed: int = 0,
        *,
        content: bytes | None = None,
        int8: bytes | None = None,
    ) -> None:
        """Publish a new model as the trainer does, or ``content``, which need not be a model.

        ``int8`` is the file of its accepted variant.
        """
        content = content or tiny_model(self.run.game.name, version, seed)
        variants: list[Variant] = []
        if int8 is not None:
            self.models.publish(self.models.stage(int8))
            name = hashlib.sha256(int8).hexdigest()
            variants = [Variant("int8", name, self.models.location(name), 0.0, 0.0)]
        self.models.publish(self.models.stage(content))
        sha256 = hashlib.sha256(content).hexdigest()
        location = self.models.location(sha256)
        self.database.insert_model(
            self.run.name, version, sha256, version, {}, location, self.epoch, variants
        )

    def promote(self, version: int) -> None:
        """Make a published model the best in Postgres only, and record its exam."""
        head = self.database.promotion_head(self.run.name)
        self.database.promote(
            self.run.name,
            version,
            None,
            "test",
            head.seq if head else 0,
            epoch=self.database.acquire_fence(self.run.name, "evaluator"),
        )
        self.examined(version)

    def examined(self, version: int) -> None:
        """Record that a model was examined, so that the evaluator does not examine it."""
        for kind in position_kinds(self.run.game.name):
            self.database.insert_exam(self.run.name, version, 1, 1, 0, kind=kind)

    def start(self, service: str, **environment: str) -> Fork:
        process = Fork(
            f"zerofleet.services.{service}",
            [self.run_file],
            {**self.environment, "ZEROFLEET_DATABASE_URL": self.urls[service], **environment},
            self.run_file.parent / f"{service}.log",
        )
        self.processes.append(process)
        return process

    def start_with_metrics(self, service: str) -> tuple[Fork, Callable[[], str]]:
        """Start a process; return it and a function that reads its metrics, empty on failure."""
        address = f"127.0.0.1:{free_port()}"

        def page() -> str:
            try:
                with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
                    return answer.read().decode()
            except OSError:
                return ""

        return self.start(service, ZEROFLEET_METRICS_ADDRESS=address), page

    def log(self, service: str) -> str:
        return (self.run_file.parent / f"{service}.log").read_text()

    def logs(self) -> str:
        """Return the ends of all logs."""
        files = sorted(self.run_file.parent.glob("*.log"))
        return "\n".join(f"== {file.name}\n{file.read_text()[-3000:]}" for file in files)

    def query(self, statement: str) -> list[Any]:
        return self.database._rows(statement)

    def doing(self, service: str) -> str:
        """Return what a service does, from its heartbeat; empty if none sends heartbeats."""
        beats = [beat for beat in self.heartbeats.read() if beat.service == service]
        return work_words(beats[0].figures) if beats else ""

    def until(self, condition: Callable[[], bool], every: float = 0.02) -> None:
        """Wait for a condition."""
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < deadline, f"not in time; the logs:\n{self.logs()}"
            time.sleep(every)


@pytest.fixture
def make_fleet(
    tmp_path: Path,
    role_url: Callable[[str], str],
    database_url: str,
    valkey_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[str], Fleet]]:
    """Return ``make_fleet(TOML)``: a registered run with an inference service."""
    monkeypatch.chdir(ROOT)
    with Database(database_url) as database:
        made: list[Fleet] = []
        address = f"127.0.0.1:{free_port()}"

        def make(toml: str) -> Fleet:
            run_file = tmp_path / "run.toml"
            run_file.write_text(toml)
            run = load_run(run_file)
            database.register_run(run)
            fleet = Fleet(
                run,
                run_file,
                database,
                {
                    "ZEROFLEET_REDIS_URL": valkey_url,
                    "ZEROFLEET_INFERENCE_ADDRESS": address,
                    "ZEROFLEET_LISTEN_ADDRESS": address,
                    "ZEROFLEET_MODEL_FOLDER": str(tmp_path / "models"),
                },
                ModelFolder(tmp_path / "models", run.name),
                database.acquire_fence(run.name, "trainer"),
                {service: role_url(role) for service, role in ROLES.items()},
            )
            made.append(fleet)
            fleet.start("inference")
            return fleet

        try:
            yield make
        finally:
            for fleet in made:
                for process in fleet.processes:
                    process.kill()
                    process.wait()
