"""The committed type stub says what the built extension offers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import zerofleet_core
from zerofleet_core import _ext

STUB = Path(__file__).parents[2] / "core" / "zerofleet_core" / "_ext.pyi"


@pytest.mark.slow
def test_stub_is_fresh(tmp_path: Path) -> None:
    generated = tmp_path / "_ext.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "zerofleet_core._ext"]
    subprocess.run([*command, "-o", str(generated)], check=True)
    assert generated.read_text() == STUB.read_text(), (
        "regenerate it: python -m nanobind.stubgen -m zerofleet_core._ext "
        "-o core/zerofleet_core/_ext.pyi"
    )


def test_package_offers_all_of_the_extension() -> None:
    public = {name for name in dir(_ext) if not name.startswith("_")}
    assert set(zerofleet_core.__all__) == public
    assert all(hasattr(zerofleet_core, name) for name in zerofleet_core.__all__)
