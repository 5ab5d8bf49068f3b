"""The autoscaler as a process: its logs, its metrics, and its behavior on SIGTERM."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from zerofleet.fleet.figures import (
    AutoscalerFigures,
    DemandFigures,
    InferenceFigures,
    SelfplayFigures,
    TrainerFigures,
)
from zerofleet.fleet.heartbeat import Heartbeat, Heartbeats
from zerofleet.local.processes import free_port

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 120.0
RUN = """
name = "scaled"
game = "tic_tac_toe"
[scaling]
window_seconds = 0.2
every_seconds = 0.1
max_workers = 16
"""


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.fixture
def heartbeats(valkey_url: str) -> Iterator[Heartbeats]:
    with contextlib.closing(Heartbeats(valkey_url, "scaled")) as found:
        yield found


def beat(heartbeats: Heartbeats, samples: float) -> None:
    """Send heartbeats, with two workers that make 10 positions a second each."""
    trainer = {"samples_per_second": samples, "reuse_target": 4.0}
    heartbeats.beat(Heartbeat("t", 1, "", TrainerFigures(demand=DemandFigures(**trainer))), ttl=600)
    rows = {"rows_per_second": 200.0, "capacity_rows_per_second": 10_000.0}
    inference = {**rows, "fill": 0.31, "queue_wait_per_compute": 0.2}
    heartbeats.beat(Heartbeat("i", 1, "", InferenceFigures(**inference)), ttl=600)
    for name in ("a", "b"):
        figures = {"training_positions_per_second": 10.0}
        heartbeats.beat(Heartbeat(name, 1, "", SelfplayFigures(**figures)), ttl=600)


def asked_for(heartbeats: Heartbeats) -> int | None:
    """Return the number of workers in the autoscaler's own heartbeat."""
    found = [each.figures for each in heartbeats.read()]
    own = [each for each in found if isinstance(each, AutoscalerFigures)]
    return own[0].selfplay_replicas if own else None


def test_explains_each_change_exports_it_and_leaves_on_sigterm(
    heartbeats: Heartbeats, valkey_url: str, tmp_path: Path
) -> None:
    run_file, metrics = tmp_path / "run.toml", f"127.0.0.1:{free_port()}"
    run_file.write_text(RUN)
    environment = {
        **os.environ,
        "ZEROFLEET_REDIS_URL": valkey_url,
        "ZEROFLEET_SCALER_ADDRESS": f"127.0.0.1:{free_port()}",
        "ZEROFLEET_METRICS_ADDRESS": metrics,
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "src"))),
    }

    def page() -> str:
        try:
            with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    beat(heartbeats, samples=80.0)
    command = [sys.executable, "-m", "zerofleet.services.autoscaler", str(run_file)]
    with subprocess.Popen(
        command, env=environment, cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as process:
        until(lambda: 'desired_replicas{role="selfplay"} 2.0' in page())
        beat(heartbeats, samples=120.0)
        until(lambda: 'desired_replicas{role="selfplay"} 3.0' in page())
        for figure in (
            "useful_workers 3.0",
            'current_replicas{role="selfplay"} 2.0',
            "reuse 6.0",
            "reuse_target 4.0",
        ):
            until(lambda line=f"zerofleet_autoscaler_{figure}\n": line in page())
        until(lambda: asked_for(heartbeats) == 3)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, errors
    records = [json.loads(line) for line in errors.splitlines()]
    changes = [each for each in records if each["event"] == "replicas_changed"]
    assert changes[-1]["replicas"] == 3
    assert changes[-1]["answer"].endswith("of 4.0, fill 0.31, wait/compute 0.2")
    assert changes[-1]["role"] == "selfplay"
    assert [each["event"] for each in records][-2:] == ["draining", "stopped"]
    # The log has only the first of hundreds of looks, and the looks that changed something.
    unchanged = [each for each in records if each["event"] == "replicas_kept"]
    assert [each["selfplay"].split(":")[0] for each in unchanged] == ["2"]


def test_bad_settings_are_one_line(tmp_path: Path) -> None:
    run_file = tmp_path / "run.toml"
    run_file.write_text(RUN)
    environment = {
        **os.environ,
        "ZEROFLEET_RUN_FILE": str(run_file),
        "ZEROFLEET_SCALER_ADDRESS": "0.0.0.0:0",
        "ZEROFLEET_REDIS_URL": "redis://127.0.0.1:1/0",
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "src"))),
    }
    done = subprocess.run(
        [sys.executable, "-m", "zerofleet.services.autoscaler"],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )
    assert done.returncode == 2
    assert "without TLS others could read the traffic" in done.stderr
    assert "Traceback" not in done.stderr
