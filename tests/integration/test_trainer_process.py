"""The trainer as a process: killed, stopped, given bad input."""

from __future__ import annotations

import random
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.fork_server import Fork
from tests.support.killed_publication import STEPS
from tests.support.random_records import target_record
from zerofleet.config import load_run
from zerofleet.database import Database, Submission
from zerofleet.games import spec
from zerofleet.models.folder import ModelFolder
from zerofleet.models.session import ModelSession
from zerofleet.services.trainer.checkpoints import CheckpointFolder

pytestmark = pytest.mark.slow

DEADLINE = 120.0
INTERVAL = 5
RUN_FILE = f"""
name = "process"
preset = "plain"
[game]
name = "tic_tac_toe"
[network]
blocks = 1
channels = 8
[trainer]
batch_size = 32
min_positions = 50
publish_every_steps = 10
checkpoint_every_steps = {INTERVAL}
metrics_every_steps = 1
"""


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@dataclass
class TrainerProcess:
    """Starts trainers of one run, one after the other."""

    database: Database
    environment: dict[str, str]
    folder: Path

    def start(self) -> Fork:
        run_file, log = self.folder / "run.toml", self.folder / "trainer.log"
        return Fork("zerofleet.services.trainer", [run_file], self.environment, log)

    def submit(self, seeds: range) -> None:
        records = [target_record(seed) for seed in seeds]
        self.database.submit_games("process", "worker", [Submission(r) for r in records])

    def measured_step(self) -> int:
        [row] = self.database._rows("SELECT coalesce(max(step), 0) AS step FROM train_metrics")
        return row.step

    def saved_step(self) -> int:
        checkpoint = CheckpointFolder(self.folder / "checkpoints" / "process").newest()
        return checkpoint.state.step if checkpoint else 0

    def check_models(self) -> list[int]:
        """Every row's file loads; versions have no gap; steps only grow. Returns the steps."""
        folder = ModelFolder(self.folder / "models", "process")
        models = self.database.models("process")
        for model in models:
            ModelSession(folder.read_verified(model.sha256), spec("tic_tac_toe"))
        steps = [model.step for model in models]
        assert [model.version for model in models] == list(range(1, len(models) + 1))
        assert steps == sorted(set(steps))
        return steps


@pytest.fixture
def trainer(
    role_url: Callable[[str], str], database_url: str, valkey_url: str, tmp_path: Path
) -> Iterator[TrainerProcess]:
    (tmp_path / "run.toml").write_text(RUN_FILE)
    environment = {
        "ZEROFLEET_DATABASE_URL": role_url("trainer"),
        "ZEROFLEET_REDIS_URL": valkey_url,
        "ZEROFLEET_MODEL_FOLDER": str(tmp_path / "models"),
        "ZEROFLEET_CHECKPOINT_FOLDER": str(tmp_path / "checkpoints"),
    }
    with Database(database_url) as database:
        database.register_run(load_run(tmp_path / "run.toml"))
        yield TrainerProcess(database, environment, tmp_path)


@pytest.mark.fleet
def test_killed_at_random_moments(trainer: TrainerProcess) -> None:
    """Nothing is published twice, every row's file loads, at most one interval is lost."""
    seed = random.randrange(1_000_000)
    generator = random.Random(seed)
    lost: list[int] = []
    for kill in range(2):
        trainer.submit(range(100 * kill, 100 * kill + 100))
        process = trainer.start()
        begun = trainer.measured_step()
        wanted = begun + generator.randrange(1, 25)
        until(lambda wanted=wanted: trainer.measured_step() >= wanted)
        time.sleep(generator.uniform(0, 0.1))
        process.kill()
        process.wait()
        lost.append(trainer.measured_step() - trainer.saved_step())
        trainer.check_models()
    assert max(lost) <= INTERVAL, f"seed {seed}: steps lost {lost}"
    process = trainer.start()
    last = trainer.measured_step()
    trainer.submit(range(200, 300))
    until(lambda: trainer.measured_step() > last + 10)
    process.terminate()
    assert process.wait(120) == 0
    steps = trainer.check_models()
    assert steps == [10 * i for i in range(len(steps))]


def test_sigterm_saves_and_leaves(trainer: TrainerProcess) -> None:
    trainer.submit(range(300))
    process = trainer.start()
    until(lambda: trainer.measured_step() >= 7)
    process.terminate()
    assert process.wait(120) == 0
    assert trainer.saved_step() == trainer.measured_step()


def test_sigterm_while_it_waits_for_postgres(trainer: TrainerProcess) -> None:
    trainer.environment["ZEROFLEET_DATABASE_URL"] = "postgresql://nobody@127.0.0.1:1/none"
    process = trainer.start()
    until(lambda: '"waiting_for": "Postgres"' in process.output())
    assert "127.0.0.1:1" in process.output()
    process.terminate()
    assert process.wait(120) == 0
    assert "Traceback" not in process.output()


@pytest.mark.parametrize(
    ("run_file", "reason"),
    [
        (RUN_FILE.replace("tic_tac_toe", "tic_tac_to"), "tic_tac_to"),
        (RUN_FILE.replace("batch_size", "bach_size"), "did you mean 'trainer.batch_size'"),
        (RUN_FILE.replace('"process"', '"blobs"'), "'blobs'"),
    ],
)
def test_bad_input_gets_one_line(trainer: TrainerProcess, run_file: str, reason: str) -> None:
    (trainer.folder / "run.toml").write_text(run_file)
    process = trainer.start()
    assert process.wait(DEADLINE) == 2
    [line] = process.output().splitlines()
    assert reason in line


def test_changed_network_sizes_are_refused(trainer: TrainerProcess) -> None:
    trainer.submit(range(50))
    process = trainer.start()
    until(lambda: trainer.saved_step() >= INTERVAL)
    process.terminate()
    process.wait(DEADLINE)
    (trainer.folder / "run.toml").write_text(RUN_FILE.replace("channels = 8", "channels = 9"))
    process = trainer.start()
    assert process.wait(DEADLINE) == 2
    assert re.search(
        r"different network \(.*: 8\S* in it, 9\S* here\)", process.output().splitlines()[-1]
    )


OWN = RUN_FILE.replace(
    "blocks = 1\nchannels = 8",
    'name = "python:examples.networks:Transformer"\nblocks = 1\nwidth = 16\nheads = 2',
)


def test_a_network_of_ones_own_is_trained_published_and_resumed(trainer: TrainerProcess) -> None:
    (trainer.folder / "run.toml").write_text(OWN)
    trainer.submit(range(100))
    process = trainer.start()
    until(lambda: trainer.saved_step() >= INTERVAL)
    process.terminate()
    assert process.wait(DEADLINE) == 0
    first = trainer.saved_step()
    trainer.submit(range(100, 300))
    process = trainer.start()
    until(lambda: trainer.measured_step() >= first + 2 * INTERVAL)
    process.terminate()
    assert process.wait(DEADLINE) == 0
    assert len(trainer.check_models()) >= 2
    (trainer.folder / "run.toml").write_text(OWN.replace("width = 16", "widht = 16"))
    process = trainer.start()
    assert process.wait(DEADLINE) == 2
    last = process.output().splitlines()[-1]
    assert "unknown key 'network.widht'" in last
    assert "known keys are blocks, width, heads" in last


PUBLISHER = """
import os, signal, sys
from pathlib import Path
from tests.support.killed_publication import STEPS, kill_after
from zerofleet.database import Database
from zerofleet.models.folder import ModelFolder
from zerofleet.models.check import Golden
from zerofleet.models.publish import publish

root, stop_at, version, epoch = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with (root / "golden").open("rb") as file:
    golden = Golden.read(file)
database = Database(os.environ["ZEROFLEET_DATABASE_URL"])

if stop_at in STEPS:
    kill_after(stop_at)
published = publish(
    ModelFolder(root / "models", "process"), (root / "exported").read_bytes(), version, golden,
)
sha256, location = published.sha256, published.location
database.insert_model("process", version, sha256, version, {}, location, epoch, ())
if stop_at == "record":
    os.kill(os.getpid(), signal.SIGKILL)
published.recorded()
"""


def test_publication_killed_at_every_point(trainer: TrainerProcess) -> None:
    """A row without a loadable file: never. The same publication afterwards: always."""
    from zerofleet.learning import export_onnx, make_network
    from zerofleet.learning.export import golden_answers, golden_observations

    game = spec("tic_tac_toe")
    run = load_run(trainer.folder / "run.toml")
    network = make_network(game, run.network, seed=1).eval()
    golden = golden_answers(network, golden_observations(game))
    (trainer.folder / "golden").write_bytes(golden.to_bytes())
    exported = export_onnx(network, game.observation_bytes, {"version": "1"})
    (trainer.folder / "exported").write_bytes(exported)
    epoch = trainer.database.acquire_fence("process", "trainer")
    publisher = trainer.folder / "publisher.py"
    publisher.write_text(PUBLISHER)
    steps = [step for step in STEPS if step != "make_in_child"]  # it has no variants
    for stop_at in (*steps, "record", "never"):
        arguments = [trainer.folder, stop_at, "1", str(epoch)]
        ended = Fork(publisher, arguments, trainer.environment, trainer.folder / "publisher.log")
        status = ended.wait(DEADLINE)
        assert status == (0 if stop_at == "never" else -signal.SIGKILL), ended.output()
        models = trainer.check_models()
        assert len(models) == (1 if stop_at in {"record", "never"} else 0)
    folder = ModelFolder(trainer.folder / "models", "process")
    assert folder.sweep(lambda sha256: trainer.database.names_file("process", sha256)) > 0
    leftovers = [path.name for path in trainer.folder.rglob(".*")]
    assert leftovers == []
    assert len(trainer.check_models()) == 1
