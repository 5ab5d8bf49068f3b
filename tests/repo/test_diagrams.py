"""The documentation's diagrams are fresh, legible, and load nothing."""

from __future__ import annotations

import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
_spec = spec_from_file_location("diagrams", ROOT / "scripts" / "diagrams.py")
assert _spec is not None
assert _spec.loader is not None
diagrams: Any = module_from_spec(_spec)
sys.modules["diagrams"] = diagrams
_spec.loader.exec_module(diagrams)

EACH = pytest.mark.parametrize("diagram", diagrams.DIAGRAMS, ids=lambda each: each.name)
TITLE_CHARACTER = 9.3  # pixels, of bold text of 15 pixels
LINE_CHARACTER = 6.7


@EACH
def test_the_file_is_fresh(diagram: Any) -> None:
    path = diagrams.FOLDER / f"{diagram.name}.svg"
    assert path.read_text(encoding="utf-8") == diagrams.render(diagram), "run scripts/diagrams.py"


@EACH
def test_words_fit_into_their_boxes_and_boxes_into_the_picture(diagram: Any) -> None:
    for box in diagram.boxes:
        assert TITLE_CHARACTER * len(box.title) <= box.width, box.title
        for line in box.lines:
            assert LINE_CHARACTER * len(line) <= box.width, line
        assert 0 <= box.x <= box.x + box.width <= diagram.width, box.title
        assert 0 <= box.y <= box.y + box.height <= diagram.height, box.title


@EACH
def test_no_box_covers_another(diagram: Any) -> None:
    for one, other in combinations(diagram.boxes, 2):
        apart_sideways = one.x + one.width <= other.x or other.x + other.width <= one.x
        apart_in_height = one.y + one.height <= other.y or other.y + other.height <= one.y
        assert apart_sideways or apart_in_height, (one.title, other.title)


@EACH
def test_the_picture_is_light_or_dark_and_loads_nothing(diagram: Any) -> None:
    text = diagrams.render(diagram)
    root = ElementTree.fromstring(text)
    assert root.find("{http://www.w3.org/2000/svg}title") is not None
    assert "prefers-color-scheme: dark" in text
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]
    assert re.findall(r"url\([^#]|@import|<image|<script|href", text) == []


def test_the_pages_show_every_diagram() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
    assert all(f"images/{diagram.name}.svg" in pages for diagram in diagrams.DIAGRAMS)


def test_a_side_that_no_box_has_is_refused() -> None:
    with pytest.raises(ValueError, match="'x' is no side of a box"):
        diagrams.MACHINE.boxes[0].edge("x", 0.5)
