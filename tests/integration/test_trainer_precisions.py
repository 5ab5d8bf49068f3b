"""The trainer publishes int8 and fp16 variants: their positions, their checks and their files."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from tests.support.random_records import target_record
from zerofleet.config import PrecisionSection, RunConfig, run_from_values
from zerofleet.database import Database, Submission
from zerofleet.fleet.figures import InferenceFigures, TrainerFigures, VariantFigures
from zerofleet.fleet.heartbeat import Heartbeat, Heartbeats
from zerofleet.games import State, spec
from zerofleet.learning.learner import Learner
from zerofleet.learning.overfit import OverfitWatch
from zerofleet.learning.window import TrainBucket, Training, Window
from zerofleet.models.folder import ModelFolder
from zerofleet.models.session import ModelSession
from zerofleet.records import GameRecord, is_held_out
from zerofleet.services.trainer.publishing import VariantRequests

pytestmark = pytest.mark.slow

DEADLINE = 120.0
SPEC = spec("tic_tac_toe")


@pytest.fixture(autouse=True)
def few_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PrecisionSection, "calibration_positions", 64)
    monkeypatch.setattr(PrecisionSection, "check_positions", 32)


def a_run(**precision: Any) -> RunConfig:
    return run_from_values({
        "name": "test",
        "preset": "plain",
        "game": {"name": "tic_tac_toe"},
        "network": {"blocks": 1, "channels": 8},
        "trainer": {
            "batch_size": 32,
            "min_positions": 50,
            "publish_every_steps": 10,
            "checkpoint_every_steps": 10,
            "held_out_share": 0.2,
            "augment": False,
        },
        "precision": precision,
    })  # fmt: skip


def submit(database: Database, seeds: range) -> list[GameRecord]:
    """Store random games in which every ply is a training position."""
    records = [target_record(seed) for seed in seeds]
    database.submit_games("test", "worker", [Submission(record) for record in records])
    return records


def observations(records: list[GameRecord]) -> set[bytes]:
    """Return every position of the games."""
    seen: set[bytes] = set()
    for record in records:
        state = State("tic_tac_toe")
        for action in record.columns.action:
            seen.add(state.observation().tobytes())
            state.apply(int(action))
    return seen


def variants_of(run: RunConfig, database: Database) -> tuple[VariantRequests, Window]:
    training = Training(
        Learner(SPEC, run), TrainBucket(run.trainer.samples_per_position), OverfitWatch(run.overfit)
    )
    window = Window(run, database, training)
    stores = cast("Any", None)  # used only while a variant is being made
    return VariantRequests(run, SPEC, window, lambda purpose: len(purpose), stores), window


def test_nothing_is_asked_for_where_the_run_file_wants_nothing(database: Database) -> None:
    variants, _ = variants_of(a_run(), database)
    assert variants.request() is None
    assert variants.figures == {}


def test_auto_follows_what_the_replicas_run_on(
    database: Database, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with contextlib.closing(Heartbeats(valkey_url, "test")) as heartbeats:
        stores = cast("Any", SimpleNamespace(heartbeats=heartbeats))
        run = a_run(variants=["auto"])
        window = variants_of(run, database)[1]
        variants = VariantRequests(run, SPEC, window, len, stores)

        def requested() -> tuple[str, ...]:
            request = variants.request()
            assert request is not None
            return request.precisions

        assert requested() == ("int8",)  # no inference server answers, and there is no GPU here
        heartbeats.beat(Heartbeat("a", 1, "", InferenceFigures(provider="cuda")))
        assert requested() == ("fp16",)
        heartbeats.beat(Heartbeat("b", 1, "", InferenceFigures(provider="openvino")))
        assert requested() == ("fp16", "int8")
        for worker in ("a", "b"):
            heartbeats.remove("inference", worker)
        assert requested() == ("fp16", "int8")  # the inference servers restart
    run = a_run(variants=["int8", "auto"])
    stores = cast("Any", SimpleNamespace(heartbeats=None))
    request = VariantRequests(run, SPEC, window, len, stores).request()
    assert request is not None
    assert request.precisions == ("int8",)


def test_positions_are_the_windows_as_soon_as_it_has_enough(database: Database) -> None:
    """Calibration uses positions of the training games, the check positions of held-out games."""
    variants, window = variants_of(a_run(variants=["int8"]), database)
    first = variants.request()
    assert first is not None
    assert first.positions.calibration.shape == (64, SPEC.observation_bytes)
    assert first.positions.check.shape == (32, SPEC.observation_bytes)
    records = submit(database, range(60))
    trained = [record for record in records if not is_held_out(record.game_uid, 0.2)]
    held_out = [record for record in records if is_held_out(record.game_uid, 0.2)]
    kinds = observations(trained), observations(held_out)
    # positions of random games
    assert not {row.tobytes() for row in first.positions.check} <= kinds[1]
    while window.read_page():
        pass
    second = variants.request()
    assert second is not None
    assert second.positions.calibration.shape == (64, SPEC.observation_bytes)
    assert {row.tobytes() for row in second.positions.calibration} <= kinds[0]
    assert {row.tobytes() for row in second.positions.check} <= kinds[1]


@dataclass
class LocalPrograms:
    """Stores and folders of one test; the trainer has only the rights of its role."""

    database: Database
    valkey_url: str
    folder: Path
    train: Callable[..., AbstractContextManager[Future[None]]]

    @property
    def models(self) -> ModelFolder:
        return ModelFolder(self.folder / "models", "test")

    def blobs(self) -> set[str]:
        return {path.name for path in (self.folder / "models" / "blobs").iterdir()}

    def variants(self) -> Mapping[str, VariantFigures]:
        beats = Heartbeats(self.valkey_url, "test").read()
        found = [beat.figures for beat in beats if isinstance(beat.figures, TrainerFigures)]
        return found[0].variants if found else {}

    def train_until(self, run: RunConfig, condition: Callable[[], object]) -> None:
        """Run a trainer until a condition is true."""
        deadline = time.monotonic() + DEADLINE
        with self.train(run) as running:
            while not running.done() and not condition():
                assert time.monotonic() < deadline, "it did not happen in time"
                time.sleep(0.02)
        running.result()


@pytest.fixture
def surroundings(database: Database, valkey_url: str, tmp_path: Path, train: Any) -> LocalPrograms:
    return LocalPrograms(database, valkey_url, tmp_path, train)


def test_each_model_has_its_variants(surroundings: LocalPrograms) -> None:
    run = a_run(variants=["int8", "fp16"], max_policy_kl=1.0, max_value_difference=1.0)
    database = surroundings.database
    submit(database, range(60))
    figures: dict[str, VariantFigures] = {}  # from heartbeats, which end with the trainer

    def all_made() -> bool:
        figures.update(surroundings.variants())
        return len(database.models("test")) >= 2 and "fp16" in figures

    surroundings.train_until(run, all_made)
    names: set[str] = set()
    for model in database.models("test"):
        fp16, int8 = database.variants("test", model.version)
        assert (fp16.precision, int8.precision) == ("fp16", "int8")
        assert int8.value_difference is not None
        assert fp16.value_difference is not None
        assert int8.value_difference > fp16.value_difference >= 0
        for variant in (fp16, int8):
            assert variant.accepted
            assert variant.sha256 is not None
            assert variant.location == f"blobs/{variant.sha256}.onnx"
            ModelSession(surroundings.models.read_verified(variant.sha256), SPEC)
            names.add(f"{variant.sha256}.onnx")
        names.add(f"{model.sha256}.onnx")
        entry = surroundings.models.root / "test" / str(model.version) / "model.onnx"
        assert entry.read_bytes() == surroundings.models.read_verified(model.sha256)
    # The stop may have interrupted a third model; the next start deletes its temporary file.
    assert {name for name in surroundings.blobs() if not name.endswith(".tmp")} == names
    assert figures["int8"].accepted
    assert figures["fp16"].accepted
    assert figures["int8"].policy_kl is not None
    assert figures["int8"].policy_kl > 0


def test_what_loses_too_much_is_a_row_with_its_reason(surroundings: LocalPrograms) -> None:
    run = a_run(variants=["int8"], max_policy_kl=1e-12)
    figures: dict[str, VariantFigures] = {}

    def is_made() -> bool:
        figures.update(surroundings.variants())
        return "int8" in figures

    surroundings.train_until(run, is_made)
    [model] = surroundings.database.models("test")
    [variant] = surroundings.database.variants("test", 1)
    assert not variant.accepted
    assert (variant.sha256, variant.location) == (None, None)
    assert variant.policy_kl is not None
    assert variant.policy_kl > 1e-12
    assert variant.reason.startswith("policy_kl ")
    assert surroundings.blobs() == {f"{model.sha256}.onnx"}
    assert not figures["int8"].accepted


def test_files_of_a_publication_that_was_cut_off_are_swept(surroundings: LocalPrograms) -> None:
    """Only files without a row are deleted, whatever the note about them says."""
    run, folder = a_run(), surroundings.models
    surroundings.train_until(run, lambda: surroundings.database.models("test"))
    [model] = surroundings.database.models("test")
    orphan = folder.publish(folder.stage(b"a variant"))
    folder.announce([orphan.stem, model.sha256])
    surroundings.train_until(run, lambda: surroundings.blobs() == {f"{model.sha256}.onnx"})
    assert surroundings.blobs() == {f"{model.sha256}.onnx"}
