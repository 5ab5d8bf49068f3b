"""The plots of the documentation show the data next to them."""

import re
import runpy
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "plots.py"
DATA = sorted((ROOT / "docs" / "data").glob("*.csv"))


def test_plots_are_fresh() -> None:
    check = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True)
    assert check.returncode == 0, check.stderr


def test_every_data_file_is_drawn() -> None:
    plots = set(runpy.run_path(str(SCRIPT))["PLOTS"])
    assert {path.stem for path in DATA} == plots


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.stem)
def test_data_say_what_made_them(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    comments = [line for line in lines if line.startswith("# ")]
    assert any(re.match(r"# (Made by|Computed from): .+", line) for line in comments), path


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.stem)
def test_pictures_fit_their_frame_and_ask_no_other_origin(path: Path) -> None:
    picture = (ROOT / "docs" / "images" / f"{path.stem}.svg").read_text(encoding="utf-8")
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")
    svg = ElementTree.fromstring(picture)
    _, _, width, height = map(float, svg.attrib["viewBox"].split())
    for text in svg.iter("{http://www.w3.org/2000/svg}text"):
        x, y = float(text.attrib["x"]), float(text.attrib["y"])
        # An average letter is 6.6 wide, so what is longer than this would be cut off.
        long = 6.6 * len(text.text or "")
        start = {"end": x - long, "middle": x - long / 2}.get(text.get("text-anchor", ""), x)
        assert start >= 0, text.text
        assert start + long <= width, text.text
        assert 0 < y < height, text.text
