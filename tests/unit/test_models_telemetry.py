"""ONNX Runtime's wheels report to their maker unless they are told not to before the import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

RUN_A_MODEL = """
from zerofleet.services.inference.devices import probe
from zerofleet.models.runtime import CPU

probe(CPU)
print("answered")
"""


def test_a_process_that_runs_a_model_leaves_nothing_in_its_home(tmp_path: Path) -> None:
    """With telemetry there are a ``deviceid`` and a queue of events there after the import."""
    unset = {"ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME"}
    environment = {key: value for key, value in os.environ.items() if key not in unset}
    child = subprocess.run(
        [sys.executable, "-c", RUN_A_MODEL],
        env=environment | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (child.returncode, child.stdout) == (0, "answered\n"), child.stderr
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == []
