"""CPUs that a process may use: affinity and the quotas of control groups."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zerofleet.cpus import usable_cpus

ALL = usable_cpus(Path("/nonexistent"))


def made_root(folder: Path, group: str, quotas: dict[str, str]) -> Path:
    """A root folder with this process in a control group, and ``cpu.max`` by group."""
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/self/cgroup").write_text(f"1:name=systemd:/x\n0::{group}\n")
    for name, text in quotas.items():
        path = folder / "sys/fs/cgroup" / name.lstrip("/")
        path.mkdir(parents=True, exist_ok=True)
        (path / "cpu.max").write_text(text + "\n")
    return folder


@pytest.mark.parametrize(
    ("group", "quotas", "cpus"),
    [
        ("/", {"/": "100000 100000"}, 1),
        ("/", {"/": "max 100000"}, ALL),
        ("/", {"/": "9900000 100000"}, ALL),
        ("/", {"/": "50000 100000"}, 1),
        ("/", {}, ALL),
        ("/", {"/": "nonsense"}, ALL),
        ("/", {"/": "100000 0"}, ALL),
        ("/a/b", {"/a": "100000 100000", "/a/b": "max 100000"}, 1),
        ("/a/b", {"/a": "max 100000", "/a/c": "100000 100000"}, ALL),
        # The path of the host, in a container.
        ("/kubepods/pod1", {"/": "100000 100000"}, 1),
        ("/../..", {"/": "100000 100000"}, 1),
    ],
)
def test_a_quota_limits_the_cpus(
    tmp_path: Path, group: str, quotas: dict[str, str], cpus: int
) -> None:
    assert usable_cpus(made_root(tmp_path, group, quotas)) == cpus


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux has affinity masks")
def test_an_affinity_mask_limits_the_cpus() -> None:
    code = (
        "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); "
        "from zerofleet.cpus import usable_cpus; print(usable_cpus())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "1\n"
