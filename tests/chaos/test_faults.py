"""A few faults of different kinds under load: nothing acknowledged is lost or stored twice.

What is done and what is looked at stands in ``bench.chaos``; ``make test-chaos`` does all kinds.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KINDS = (
    "KILL all",
    "KILL selfplay",
    "STOP postgres",
    "Redis wiped",
    "Redis out of memory",
    "worker apart from postgres",
    "disk full",
)


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.fleet
@pytest.mark.timeout(3600)
def test_a_few_faults_break_no_promise_and_a_run_that_ended_is_not_done_again(
    tmp_path: Path,
) -> None:
    """In a process of its own: it mounts a small disk that only it and its fleet see."""
    out = tmp_path / "rounds.jsonl"
    short = ["--seed", "1", "--longest-stop", "6", "--out", str(out), "--kinds", *KINDS]
    short += ["--settle", "600"]  # on a machine that has much else to do
    command = [sys.executable, "-m", "bench.chaos", "--rounds", str(len(KINDS)), *short]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["round"] for row in rows] == [*range(1, len(KINDS) + 1), len(KINDS)]
    assert {row["kind"] for row in rows} == {*KINDS, "end of a fleet"}
    assert sum(row["acknowledged"] for row in rows) > 100
    assert sum(row["adopted"] for row in rows) > 0
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert again.stdout.splitlines()[-3:] == done.stdout.splitlines()[-3:], "the same table"
    assert len(out.read_text().splitlines()) == len(rows)
