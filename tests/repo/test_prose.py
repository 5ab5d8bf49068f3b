"""The prose of the code and the pages has no mistakes, and the check for them works."""

import json
import runpy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@cache
def prose() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "prose.py"))


def mistakes(tmp_path: Path, source: str, name: str = "module.py") -> list[str]:
    path = tmp_path / name
    path.write_text(source)
    return [line.removeprefix(f"{path}:") for line in prose()["mistakes_of"](path)]


def test_the_code_has_no_mistakes() -> None:
    paths = prose()["checked_files"]()
    assert len(paths) > 500
    folders = {path.relative_to(ROOT).parts[0] for path in paths}
    assert folders >= {"src", "services", "scripts", "bench", "tests", "examples", "docs"}
    checked = [path for path in paths if not prose()["is_excused"](path)]
    assert [mistake for path in checked for mistake in prose()["mistakes_of"](path)] == []


def test_what_is_excused_still_has_mistakes() -> None:
    excused = [path for path in prose()["checked_files"]() if prose()["is_excused"](path)]
    for name in prose()["NOT_YET"]:
        paths = [path for path in excused if path == ROOT / name or ROOT / name in path.parents]
        assert any(prose()["mistakes_of"](path) for path in paths), f"strike off {name}"


def test_no_page_is_excused() -> None:
    assert prose()["PAGES_NOT_YET"] == ()


@pytest.mark.parametrize(
    "source",
    [
        '"""Of a run: its name."""',
        'class A:\n    size: int\n    """That is stored."""',
        "# Those are kept.",
        "x = 1  # of a game",
        "# The first line is right, and the second has\n# a word that we do not use: anew.",
        'raise ValueError(f"{1} is started anew")',
        '"""' + "word " * 35 + 'end."""',
    ],
)
def test_a_mistake_is_found(tmp_path: Path, source: str) -> None:
    assert len(mistakes(tmp_path, source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        '"""Offer a run."""',
        'x = "Of a run: its name"',
        "# noqa: those of a linter",
        '"""' + "word " * 30 + "end. " + "word " * 30 + 'end."""',
        '"""A list.\n\n' + "- one item with words\n" * 20 + '"""',
        'def f():\n    """Call.\n\n    Args:\n' + "        name: some words.\n" * 20 + '    """',
    ],
)
def test_good_prose_passes(tmp_path: Path, source: str) -> None:
    assert mistakes(tmp_path, source) == []


def test_comments_in_sql_are_checked(tmp_path: Path) -> None:
    assert mistakes(tmp_path, "SELECT 1;  -- of a game\n", "query.sql") == [
        "1: begins with 'of': put the subject first"
    ]


@pytest.mark.parametrize(
    "source",
    [
        "It is started anew.",
        "| a cell | that of another |",
        "## Likewise",
        "word " * 35 + "end.",
        "It took\n1, 2, 3, 4\nand 5 seconds.",
        "- A first item.\n- " + "word " * 36,
        "1. Read [this page\nanew](page.md).",
    ],
)
def test_a_mistake_of_a_page_is_found(tmp_path: Path, source: str) -> None:
    assert len(mistakes(tmp_path, source, "page.md")) == 1


@pytest.mark.parametrize(
    "source",
    [
        "Of this the page says nothing.",
        "word " * 30 + "end. " + "word " * 30 + "end.",
        "- one item of a list\n" * 20,
        "```text\n" + "anew " * 40 + "\n```",
        "````text\n```\nanew\n````",
        "Use `anew` and " + "`1 2 3 4 5`.",
        "| 1 | 2 | 3 | 4 | 5 | " + "word " * 40 + "|",
        "A 9x9 board, int8 and UUIDv7 in [text](anew/1/2/3/4/5.md).",
        "Ports 1, 2, 3 and 4.",
    ],
)
def test_a_good_page_passes(tmp_path: Path, source: str) -> None:
    assert mistakes(tmp_path, source, "page.md") == []


def test_the_words_of_a_notebook_are_checked(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["It is made\n", "anew."]},
        {"cell_type": "code", "source": ["anew = 1"]},
    ]
    assert mistakes(tmp_path, json.dumps({"cells": cells}), "page.ipynb") == [
        "1: 'anew': write again"
    ]
