"""Variants are judged on positions and made in a child process; a failure affects nothing else."""

import io
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import psutil
import pytest
import torch
from numpy.typing import NDArray

from tests.processes import runs, wait_ended
from zerofleet.config import NetworkSection
from zerofleet.database import Variant
from zerofleet.errors import IncompatibleModelError
from zerofleet.games import spec
from zerofleet.learning import export_onnx, make_network
from zerofleet.learning.export import random_positions
from zerofleet.models import publish as publishing
from zerofleet.models.check import Golden
from zerofleet.models.folder import ModelFolder, StagedModel
from zerofleet.models.publish import make_in_child, publish
from zerofleet.models.session import ModelSession
from zerofleet.models.variant import Bounds, Positions, VariantRequest, make, measure

SPEC = spec("tic_tac_toe")
LOOSE = Bounds(policy_kl=0.01, value_difference=0.1)
DEADLINE = 120.0


@cache
def exported() -> tuple[bytes, Golden]:
    network = make_network(SPEC, NetworkSection(blocks=1, channels=8), seed=1)
    observations = positions(16, 0).check
    with torch.no_grad():
        policy_logits, value = network.eval().predict(torch.from_numpy(observations))
    golden = Golden(observations, policy_logits.numpy(), value.numpy())
    return export_onnx(network, SPEC.observation_bytes, {}), golden


def positions(count: int = 64, seed: int = 1) -> Positions:
    generator = np.random.default_rng(seed)
    return Positions(*(random_positions(SPEC, count, generator) for _ in range(2)))


def request(*precisions: str, bounds: Bounds = LOOSE) -> VariantRequest:
    return VariantRequest(precisions, positions(), bounds)


@pytest.fixture
def folder(tmp_path: Path) -> ModelFolder:
    return ModelFolder(tmp_path / "models", "run")


@pytest.fixture
def staged(folder: ModelFolder) -> StagedModel:
    return folder.stage(exported()[0])


def children() -> set[int]:
    """Return the child processes that run now, including earlier tests' ones."""
    return {child.pid for child in psutil.Process().children() if runs(child.pid)}


class Canned:
    """A model with the same output for every position."""

    def __init__(self, policy: list[float], value: float) -> None:
        self.policy_logits = np.log(np.array(policy)).astype(np.float16)
        self.value = np.float32(value)

    def run(
        self, observations: NDArray[np.uint8]
    ) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
        rows = len(observations)
        return np.tile(self.policy_logits, (rows, 1)), np.full(rows, self.value)


def measured(fp32: Canned, variant: Canned, count: int = 100) -> Any:
    observations = np.zeros((count, 4), np.uint8)
    return measure(cast("ModelSession", fp32), cast("ModelSession", variant), observations)


def test_losses_by_hand() -> None:
    loss = measured(Canned([0.5, 0.5], 0.25), Canned([0.25, 0.75], -0.25))
    wanted = 0.5 * np.log(0.5 / 0.25) + 0.5 * np.log(0.5 / 0.75)
    assert loss.policy_kl == pytest.approx(wanted, rel=1e-3)
    assert loss.value_difference == 0.5
    same = measured(Canned([0.5, 0.5], 0.25), Canned([0.5, 0.5], 0.25))
    assert (same.policy_kl, same.value_difference) == (0, 0)


def test_answers_that_are_not_finite_are_no_losses() -> None:
    for broken in (Canned([0.5, float("nan")], 0.0), Canned([0.5, 0.5], float("inf"))):
        with pytest.raises(IncompatibleModelError, match="not finite"):
            measured(Canned([0.5, 0.5], 0.0), broken)


def test_what_is_beyond_its_bound_is_named() -> None:
    loss = measured(Canned([0.5, 0.5], 0.25), Canned([0.25, 0.75], -0.25))
    assert loss.why_refused(Bounds(0.2, 0.6)) == ""
    assert loss.why_refused(Bounds(0.1, 0.6)) == "policy_kl 0.144 is above 0.1"
    assert loss.why_refused(Bounds(0.2, 0.5)) == ""  # the bound is inclusive
    both = loss.why_refused(Bounds(0.1, 0.4))
    assert both == "policy_kl 0.144 is above 0.1, value_difference 0.5 is above 0.4"


def test_positions_travel() -> None:
    sent = positions()
    read = Positions.read(io.BytesIO(sent.to_bytes()))
    np.testing.assert_array_equal(read.calibration, sent.calibration)
    np.testing.assert_array_equal(read.check, sent.check)
    assert not np.array_equal(read.check, sent.calibration)


@pytest.mark.parametrize("precision", ["int8", "fp16"])
def test_a_variant_that_is_accepted_is_staged(folder: ModelFolder, precision: str) -> None:
    outcome = make(folder, exported()[0], SPEC, precision, positions(), LOOSE)
    assert outcome.reason == ""
    assert outcome.staged is not None
    assert outcome.sha256 is not None
    path = folder.publish(StagedModel(Path(outcome.staged), outcome.sha256))
    ModelSession(folder.read_verified(path.stem), SPEC)


def test_a_variant_that_is_refused_leaves_no_file(folder: ModelFolder) -> None:
    outcome = make(folder, exported()[0], SPEC, "int8", positions(), Bounds(1e-12, 0.1))
    assert outcome.reason.startswith("policy_kl ")
    assert outcome.policy_kl is not None
    assert outcome.policy_kl > 1e-12
    assert (outcome.staged, outcome.sha256) == (None, None)
    assert [path for path in folder.root.rglob("*") if path.is_file()] == []


def test_made_by_another_process(folder: ModelFolder, staged: StagedModel) -> None:
    wanted = request("int8")
    variant, file = make_in_child(folder, staged, SPEC, "int8", wanted)
    assert file is not None
    assert variant.sha256 == file.sha256
    assert variant.location == f"blobs/{file.sha256}.onnx"
    here = make(folder, exported()[0], SPEC, "int8", wanted.positions, wanted.bounds)
    assert (here.sha256, here.policy_kl) == (variant.sha256, variant.policy_kl)


def test_refused_by_another_process(folder: ModelFolder, staged: StagedModel) -> None:
    wanted = request("int8", bounds=Bounds(0.01, 1e-12))
    variant, file = make_in_child(folder, staged, SPEC, "int8", wanted)
    assert file is None
    assert (variant.sha256, variant.location) == (None, None)
    assert variant.value_difference is not None
    assert variant.reason.startswith("value_difference ")


def test_a_network_that_cannot_be_quantized_says_so(folder: ModelFolder) -> None:
    small = make_network(SPEC, NetworkSection(blocks=0, channels=4), seed=1)
    staged = folder.stage(export_onnx(small, SPEC.observation_bytes, {}))
    variant, file = make_in_child(folder, staged, SPEC, "int8", request("int8"))
    assert file is None
    assert variant.policy_kl is None
    assert "nothing to quantize" in variant.reason


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that replaces Python as the child process."""
    path = tmp_path / "python"
    path.touch(mode=0o755)
    monkeypatch.setattr(publishing.sys, "executable", str(path))
    return path


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("kill -SEGV $$", f"zerofleet.models.variant ended with status {-signal.SIGSEGV}"),
        ("echo 'a tool: out of luck' >&2; exit 1", "a tool: out of luck"),
        ("exit 3", "zerofleet.models.variant ended with status 3"),
        ("echo nonsense", "zerofleet.models.variant gave no answer"),
        ("true", "zerofleet.models.variant gave no answer"),
    ],
)
def test_a_tool_that_dies_costs_the_variant_alone(
    folder: ModelFolder, staged: StagedModel, program: Path, script: str, reason: str
) -> None:
    program.write_text(f"#!/bin/sh\ncat > /dev/null\n{script}\n")
    variant, file = make_in_child(folder, staged, SPEC, "int8", request("int8"))
    assert variant == Variant("int8", reason=reason)
    assert file is None


def test_a_tool_that_hangs_is_ended(
    folder: ModelFolder,
    staged: StagedModel,
    program: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    monkeypatch.setattr(publishing, "_VARIANT_SECONDS", 0.0)
    monkeypatch.setattr(publishing, "_POLL_SECONDS", 0.01)
    before = children()
    variant, _ = make_in_child(folder, staged, SPEC, "int8", request("int8"))
    assert variant.reason == "zerofleet.models.variant took over 0 s"
    assert children() <= before


def reason_given(
    folder: ModelFolder,
    staged: StagedModel,
    content: Positions,
    on_third_wait: Callable[[], object],
) -> str:
    """Return a child's reason why there is no variant."""
    waits = itertools.count(1)

    def waiting() -> None:
        if next(waits) == 3:
            on_third_wait()

    wanted = VariantRequest(("int8",), content, LOOSE)
    return make_in_child(folder, staged, SPEC, "int8", wanted, waiting)[0].reason


def of_size(count: int) -> Positions:
    """Make positions of one row, so that nearly all data sent is the row."""
    return Positions(np.zeros((1, count), np.uint8), np.zeros((1, 1), np.uint8))


@pytest.mark.parametrize("count", [100, 200_000, 5_000_000])
def test_a_child_slow_to_read_gets_all_of_it(
    folder: ModelFolder,
    staged: StagedModel,
    program: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
) -> None:
    """The child begins to read when the trainer has waited three times."""
    monkeypatch.setattr(publishing, "_VARIANT_SECONDS", DEADLINE)
    monkeypatch.setattr(publishing, "_POLL_SECONDS", 0.01)
    start = tmp_path / "start"
    os.mkfifo(start)
    program.write_text(f"#!/bin/sh\nread -r _ < {start}\necho $(wc -c) bytes >&2\nexit 1\n")
    content = of_size(count)
    reason = reason_given(folder, staged, content, lambda: start.write_text("now\n"))
    assert reason == f"{len(content.to_bytes())} bytes"


@pytest.mark.parametrize("count", [100, 5_000_000])
@pytest.mark.parametrize("script", ["exit 3", "head -c 10 > /dev/null; exit 3"])
def test_a_child_that_dies_without_reading_is_named(
    folder: ModelFolder, staged: StagedModel, program: Path, count: int, script: str
) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    reason = reason_given(folder, staged, of_size(count), lambda: None)
    assert reason == "zerofleet.models.variant ended with status 3"


def test_a_child_that_never_reads_is_ended_in_time(
    folder: ModelFolder, staged: StagedModel, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    monkeypatch.setattr(publishing, "_VARIANT_SECONDS", 0.05)
    monkeypatch.setattr(publishing, "_POLL_SECONDS", 0.01)
    before = children()
    reason = reason_given(folder, staged, of_size(5_000_000), lambda: None)
    assert reason == "zerofleet.models.variant took over 0 s"
    assert children() <= before


def test_a_child_that_complains_at_length_before_it_reads_is_heard(
    folder: ModelFolder, staged: StagedModel, program: Path
) -> None:
    """Both directions exceed the size of a pipe at the same time."""
    complain = "head -c 1000000 /dev/zero | tr '\\0' x >&2"
    program.write_text(f"#!/bin/sh\n{complain}\ncat > /dev/null\necho >&2\necho why >&2\nexit 1\n")
    assert reason_given(folder, staged, of_size(5_000_000), lambda: None) == "why"


class _LeavingError(Exception):
    pass


@pytest.mark.parametrize("script", ["exec sleep 1000", "cat > /dev/null; kill -TERM $$"])
def test_whoever_is_told_to_leave_does_not_wait(
    folder: ModelFolder, program: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    """This holds even if the child gets SIGTERM at the same moment: the variant is not refused."""
    monkeypatch.setattr(publishing, "_POLL_SECONDS", 0.01)

    def leave(precision: str) -> None:
        raise _LeavingError(precision)

    program.write_text(f"#!/bin/sh\n{script}\n")
    monkeypatch.setattr(publishing, "check_in_child", lambda *_: None)
    model_bytes, golden = exported()
    wanted = VariantRequest(("int8",), positions(), LOOSE)
    before = children()
    with pytest.raises(_LeavingError, match="int8"):
        publish(folder, model_bytes, 1, golden, wanted=wanted, waiting=leave)
    assert children() <= before
    assert [path for path in folder.root.rglob("*") if path.is_file()] == []


def test_a_model_is_published_with_what_was_accepted(folder: ModelFolder) -> None:
    """fp16 loses almost nothing on such a small network, and int8 loses more."""
    model_bytes, golden = exported()
    wanted = request("fp16", "int8", bounds=Bounds(1e-7, 0.1))
    published = publish(folder, model_bytes, 1, golden, wanted=wanted)
    published.recorded()
    half, quantized = published.variants
    assert (half.precision, half.reason) == ("fp16", "")
    assert quantized.reason.startswith("policy_kl ")
    assert published.location == f"blobs/{published.sha256}.onnx"
    files = {
        str(path.relative_to(folder.root)) for path in folder.root.rglob("*") if path.is_file()
    }
    assert files == {
        f"blobs/{published.sha256}.onnx",
        half.location,
        "run/1/model.onnx",
        "run/config.pbtxt",
    }
    entry = folder.root / "run" / "1" / "model.onnx"
    assert entry.read_bytes() == model_bytes  # the Triton folder has only the fp32 model


def test_the_child_needs_no_torch_and_the_trainer_no_runtime() -> None:
    for module, names in (
        ("zerofleet.models.variant", ("torch", "pydantic", "sqlalchemy")),
        ("zerofleet.models.publish", ("torch", "onnxruntime", "onnx")),
    ):
        program = f"import sys, {module}; sys.exit(any(name in sys.modules for name in {names}))"
        subprocess.run([sys.executable, "-c", program], check=True)


TRAINER = """
import os, sys
from pathlib import Path
import numpy as np
from zerofleet.models.folder import ModelFolder
from zerofleet.models.publish import make_in_child
from zerofleet.models.graph import Shape
from zerofleet.models.variant import Bounds, Positions, VariantRequest

def waiting():
    print("making", flush=True)

folder = ModelFolder(Path(sys.argv[1]), "run")
staged = folder.stage(Path(sys.argv[2]).read_bytes())
# Enough that the child is not done soon.
many = np.random.default_rng(1).integers(0, 256, (4_000_000, 4), np.uint8)
wanted = VariantRequest(("int8",), Positions(many[:64], many), Bounds(1.0, 1.0))
make_in_child(folder, staged, Shape(4, 9), "int8", wanted, waiting)
"""


@pytest.mark.slow
def test_the_child_leaves_with_its_trainer(folder: ModelFolder, tmp_path: Path) -> None:
    (tmp_path / "exported").write_bytes(exported()[0])
    command = [sys.executable, "-c", TRAINER, str(folder.root), str(tmp_path / "exported")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as trainer:
        assert trainer.stdout is not None
        assert trainer.stdout.readline() == b"making\n"
        [child] = psutil.Process(trainer.pid).children()
        os.kill(trainer.pid, signal.SIGKILL)
    wait_ended([child.pid])
    assert folder.sweep(lambda _: False) >= 1
    assert [path for path in folder.root.rglob("*") if path.is_file()] == []
