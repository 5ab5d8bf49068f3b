"""``make cluster-test`` without a prerequisite fails and says what is missing and what to do."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
# A kubectl whose context is 'far-away' and that has no fleet. The test fills in its answer about
# the label. It refuses all other commands.
KUBECTL = """#!/bin/sh
case "$*" in
  *"config current-context") echo far-away ;;
  *"get namespace default"*) {label} ;;
  *"get namespace zerofleet-trial"*) ;;
  *) echo refused >&2; exit 1 ;;
esac
"""
NOBODY = KUBECTL.format(label="echo nobody there >&2; exit 1")
UNLABELLED = KUBECTL.format(label="")
WITHOUT_METRICS = KUBECTL.format(label="printf true")

pytestmark = pytest.mark.fleet  # each test starts pytest


def run(command: str, kubectl: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command with this ``kubectl`` and no other program on PATH."""
    if kubectl:
        program = folder / "kubectl"
        program.write_text(kubectl)
        program.chmod(0o755)
    return subprocess.run(
        ["/bin/sh", "-c", command.replace("$(BIN)", str(Path(sys.executable).parent))],
        cwd=ROOT,
        env={"PATH": str(folder), "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("kubectl", "words"),
    [
        ("", ["no program 'kubectl' on PATH: install it"]),
        (NOBODY, ["context 'far-away': start one, or name another", "nobody there"]),
        (UNLABELLED, ["'far-away' may be anybody's", "kubectl label namespace default"]),
        (WITHOUT_METRICS, ["'far-away' lacks /apis/external.metrics.k8s.io", "WITHOUT_HPA=1"]),
    ],
)
def test_what_the_tests_need_is_asked_for(kubectl: str, words: list[str], tmp_path: Path) -> None:
    [command] = re.findall(r"^cluster-test:.*\n\t(.+)$", MAKEFILE, re.MULTILINE)
    done = run(command, kubectl, tmp_path)
    assert done.returncode == 2, done.stdout
    assert [each for each in words if each not in done.stdout + done.stderr] == []
    assert "passed" not in done.stdout


def test_among_all_others_the_tests_are_skipped(tmp_path: Path) -> None:
    done = run("$(BIN)/python -m pytest -m cluster tests/cluster", NOBODY, tmp_path)
    assert done.returncode == 0, done.stdout
    assert re.search(r" \d+ skipped", done.stdout)
    assert "nobody there" in done.stdout
