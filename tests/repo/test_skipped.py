"""The last lines of a run say what was skipped."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = """
import pytest

needs_go = pytest.mark.skipif(True, reason="needs go (make go)")

@needs_go
def test_one(): ...

@needs_go
def test_other(): ...

def test_third():
    pytest.skip("needs luck")
"""


def test_a_run_ends_with_what_was_skipped_and_how_to_have_it(tmp_path: Path) -> None:
    file = tmp_path / "test_skipped.py"
    file.write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", "pyproject.toml", file],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
    )
    line, last = done.stdout.splitlines()[-2:]
    assert line == "Skipped: 2 × needs go (make go); 1 × needs luck", done.stdout
    assert "3 skipped" in last
