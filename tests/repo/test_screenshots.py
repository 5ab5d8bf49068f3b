"""Every picture of the documentation exists, is shown, and is made by a script."""

from __future__ import annotations

import io
import re
import runpy
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
SCREENSHOTS = runpy.run_path(str(ROOT / "scripts" / "screenshots.py"))
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
NAMED = re.compile(r"""!\[[^\]]*\]\(([^)\s]+)|\b(?:src|srcset)=\\?["']([^"'\\]+)""")
FILES = {path.name for path in IMAGES.iterdir()}
TAKEN = {f"{picture.name}.png" for picture in SCREENSHOTS["PICTURES"]}


def shown(page: Path) -> set[Path]:
    """The files of the pictures that a page shows."""
    names = [one or other for one, other in NAMED.findall(page.read_text(encoding="utf-8"))]
    return {(page.parent / name).resolve() for name in names if "://" not in name}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_picture_of_a_page_exists(page: Path) -> None:
    assert [path for path in shown(page) if not path.is_file()] == []


def test_every_picture_is_shown_on_a_page() -> None:
    pictures = set().union(*map(shown, PAGES))
    assert {path.name for path in pictures if path.parent == IMAGES} == FILES


def test_every_screenshot_is_made_by_the_script() -> None:
    assert {name for name in FILES if not name.endswith(".svg")} == TAKEN


@pytest.mark.parametrize("name", sorted(TAKEN))
def test_files_are_small(name: str) -> None:
    assert (IMAGES / name).stat().st_size <= SCREENSHOTS["MOST_BYTES"]


def test_a_compressed_picture_is_the_same_and_names_its_source() -> None:
    picture = Image.new("RGB", (90, 60), "#f6f7f9")
    ImageDraw.Draw(picture).rectangle((10, 10, 50, 40), "#2f6db3")
    file = io.BytesIO()
    picture.save(file, "PNG")
    with Image.open(io.BytesIO(SCREENSHOTS["compressed"](file.getvalue(), "model 7"))) as small:
        assert small.mode == "P"
        assert small.text == {"Comment": "Made by scripts/screenshots.py from model 7"}
        assert small.convert("RGB").tobytes() == picture.tobytes()
