"""Publication: checked by another process, and cut off at every point without harm."""

import json
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.fork_server import Fork
from tests.support.killed_publication import STEPS
from zerofleet.config import NetworkSection
from zerofleet.errors import IncompatibleModelError
from zerofleet.games import spec
from zerofleet.learning import export_onnx, make_network
from zerofleet.models.check import Golden, compare
from zerofleet.models.folder import ModelFolder
from zerofleet.models.publish import check_in_child, publish
from zerofleet.models.session import ModelSession


@cache
def exported() -> tuple[bytes, Golden]:
    network = make_network(spec("tic_tac_toe"), NetworkSection(blocks=1, channels=8), seed=1)
    observations = np.random.default_rng(0).integers(0, 256, (16, 4), np.uint8)
    with torch.no_grad():
        policy_logits, value = network.eval().predict(torch.from_numpy(observations))
    golden = Golden(observations, policy_logits.numpy(), value.numpy())
    return export_onnx(network, 4, {}), golden


def test_golden_answers_travel() -> None:
    import io

    golden = exported()[1]
    read = Golden.read(io.BytesIO(golden.to_bytes()))
    np.testing.assert_array_equal(read.observations, golden.observations)
    np.testing.assert_array_equal(read.policy_logits, golden.policy_logits)
    np.testing.assert_array_equal(read.value, golden.value)


def test_rounding_is_acceptable_and_more_is_not() -> None:
    golden = exported()[1]
    rounded = golden.policy_logits.astype(np.float16)
    assert compare(golden, rounded, golden.value).acceptable
    assert not compare(golden, rounded + np.float16(0.02), golden.value).acceptable
    assert not compare(golden, rounded, golden.value + np.float32(0.001)).acceptable
    assert not compare(golden, rounded * np.float16("nan"), golden.value).acceptable


def test_the_child_imports_nothing_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "onnxruntime.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    model_bytes, golden = exported()
    check_in_child(ModelFolder(tmp_path / "models", "run").stage(model_bytes), golden)


def test_the_child_refuses_other_answers(tmp_path: Path) -> None:
    model_bytes, golden = exported()
    folder = ModelFolder(tmp_path, "run")
    wrong = Golden(golden.observations, golden.policy_logits + 0.1, golden.value)
    with pytest.raises(IncompatibleModelError, match="disagrees with the network"):
        publish(folder, model_bytes, 1, wrong)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_the_child_refuses_bytes_that_changed_on_disk(tmp_path: Path) -> None:
    model_bytes, golden = exported()
    staged = ModelFolder(tmp_path, "run").stage(model_bytes)
    staged.path.chmod(0o644)
    staged.path.write_bytes(model_bytes[:-1])
    with pytest.raises(IncompatibleModelError, match="differ from what was written"):
        check_in_child(staged, golden)


def test_the_child_needs_no_torch() -> None:
    program = (
        "import sys, zerofleet.models.check; "
        "sys.exit(any(name in sys.modules for name in ('torch', 'onnx', 'pydantic')))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


PUBLISHER = """
import json, os, signal, sys
from pathlib import Path
import numpy as np
from tests.support.killed_publication import STEPS, kill_after
from zerofleet.models.folder import ModelFolder
from zerofleet.models.check import Golden
from zerofleet.models.publish import publish
from zerofleet.models.variant import Bounds, Positions, VariantRequest

root, stop_at = Path(sys.argv[1]), sys.argv[2]
with (root / "golden").open("rb") as file:
    golden = Golden.read(file)

folder = ModelFolder(root / "models", "run")
recorded = (root / "rows").read_text() if (root / "rows").exists() else ""
folder.sweep(lambda sha256: sha256 in recorded)
# Each try has other positions, and makes another variant of them.
drawn = np.random.default_rng().integers(0, 256, (64, 4), np.uint8)
wanted = VariantRequest(("int8",), Positions(drawn, drawn), Bounds(1.0, 1.0))
exported = (root / "exported").read_bytes()
if stop_at in STEPS:
    kill_after(stop_at)
published = publish(folder, exported, 1, golden, wanted=wanted)
with (root / "rows").open("a") as rows:
    names = [published.sha256, *(variant.sha256 for variant in published.variants)]
    rows.write(json.dumps(names) + "\\n")
if stop_at == "record":
    os.kill(os.getpid(), signal.SIGKILL)
published.recorded()
"""


@pytest.mark.slow
def test_killed_at_every_point(tmp_path: Path) -> None:
    """No row without a file that loads; nothing in the way of the next try; no litter after it."""
    model_bytes, golden = exported()
    (tmp_path / "exported").write_bytes(model_bytes)
    (tmp_path / "golden").write_bytes(golden.to_bytes())
    rows = tmp_path / "rows"
    folder = ModelFolder(tmp_path / "models", "run")

    publisher = tmp_path / "publisher.py"
    publisher.write_text(PUBLISHER)

    def run(stop_at: str) -> int:
        return Fork(publisher, [tmp_path, stop_at], {}, tmp_path / "log").wait(120)

    for step in (*STEPS, "record"):
        rows.unlink(missing_ok=True)
        assert run(step) == -signal.SIGKILL, step
        recorded = rows.read_text().splitlines() if rows.exists() else []
        assert len(recorded) == (1 if step == "record" else 0)
        for line in recorded:
            names = json.loads(line)
            assert len(names) == 2  # fp32 and int8
            for sha256 in names:
                ModelSession(folder.read_verified(sha256), spec("tic_tac_toe"))
    rows.unlink()  # as if the last transaction had been rolled back
    assert run("never") == 0
    sha256, variant = json.loads(rows.read_text())
    for name in (sha256, variant):
        ModelSession(folder.read_verified(name), spec("tic_tac_toe"))
    files = {
        str(path.relative_to(folder.root)) for path in folder.root.rglob("*") if path.is_file()
    }
    assert files == {
        f"blobs/{sha256}.onnx",
        f"blobs/{variant}.onnx",
        "run/1/model.onnx",
        "run/config.pbtxt",
    }
