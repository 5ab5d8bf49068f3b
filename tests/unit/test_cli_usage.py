"""The usage of a run: CPU and wall seconds since the first game."""

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zerofleet.fleet.usage import Usage
from zerofleet.local import data_folder
from zerofleet.local.data_folder import UsageMeter, tree_cpu_seconds

BURN = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass"


def test_children_that_ended_are_counted() -> None:
    before = tree_cpu_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", BURN], check=True)
    assert tree_cpu_seconds(os.getpid()) - before > 0.1  # it used 0.2 s; ticks last 0.01 s


def test_children_that_live_are_counted() -> None:
    before = tree_cpu_seconds(os.getpid())
    with subprocess.Popen(
        [sys.executable, "-c", f"{BURN}\nprint(flush=True)\ninput()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert tree_cpu_seconds(os.getpid()) - before > 0.1  # it used 0.2 s; ticks last 0.01 s
        child.communicate(b"\n")


def test_the_bill_begins_with_the_first_game_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "usage.json"
    meter = UsageMeter(path)
    assert meter.read(games=0) == Usage(0.0, 0.0)
    assert not path.exists()
    meter.read(games=0)
    began = time.monotonic()  # after the meter has read its own clock
    while time.monotonic() < began + 0.02:
        pass
    first = meter.read(games=1)
    assert first.wall_seconds >= 0.02
    resumed = UsageMeter(path)
    assert resumed.usage == first
    assert resumed.read(games=2).wall_seconds >= first.wall_seconds
    path.write_text("not JSON")
    assert UsageMeter(path).usage == Usage(0.0, 0.0)


def test_the_bill_has_a_curve_that_stays_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "usage.json"
    seconds = [0.0]
    monkeypatch.setattr(data_folder, "_now", lambda: Usage(seconds[0], 2 * seconds[0]))
    meter = UsageMeter(path)
    for _ in range(3_000):
        seconds[0] += 1.0
        meter.read(games=1)
    curve = json.loads(path.read_text())["curve"]
    assert 100 < len(curve) <= 501
    used = [cpu for _, cpu in curve]
    assert used == sorted(used)
    assert used[-1] == meter.usage.cpu_seconds == 6_000
    assert max(b - a for a, b in itertools.pairwise(used)) < 200
    resumed = UsageMeter(path)
    seconds[0] += 1.0
    resumed.read(games=1)
    assert json.loads(path.read_text())["curve"][-1][1] == 6_002


def test_a_bill_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    """The disk is full, for example, and the services wait."""
    assert UsageMeter(tmp_path / "gone" / "usage.json").read(games=1).wall_seconds >= 0.0
