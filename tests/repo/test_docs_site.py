"""The hooks of the documentation site: notebooks become pages, and mistakes fail the build."""

import base64
import runpy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PNG = b"\x89PNG\r\n\x1a\n"


@cache
def hooks() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "docs_site.py"))


def mistakes(folder: Path, text: str, name: str = "index.html") -> list[str]:
    (folder / name).write_text(text)
    return list(hooks()["mistakes_of_site"](folder))


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://unpkg.com/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.googleapis.com/css">',
        '<link rel="preconnect" href="https://fonts.gstatic.com" crossorigin>',
        '<img src="http://example.org/x.png">',
        '<source srcset="https://example.org/x.svg">',
        "<style>a { background: url('https://example.org/x.png') }</style>",
        '<pre class="mermaid"><code>graph LR</code></pre>',
        "<p>These:\n- one\n- two</p>",
        "<p>A table:\n| a | b |</p>",
    ],
)
def test_a_mistake_of_a_page_is_found(tmp_path: Path, text: str) -> None:
    assert len(mistakes(tmp_path, text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        '<a href="https://example.org">a link that a reader may follow</a>',
        '<link rel="canonical" href="https://example.org/index.html">',
        '<script src="assets/x.js"></script><img src="data:image/png;base64,AA==">',
        "<pre><code>These:\n- one\nsrc=https://example.org</code></pre>",
        "<p>One\nline - and another</p><ul><li>one</li></ul>",
    ],
)
def test_a_good_page_has_no_mistake(tmp_path: Path, text: str) -> None:
    assert mistakes(tmp_path, text) == []


def test_a_stylesheet_that_loads_from_elsewhere_is_found(tmp_path: Path) -> None:
    assert mistakes(tmp_path, "@import 'https://example.org/x.css';", "a.css") == [
        "a.css loads https://example.org/x.css"
    ]


def test_a_notebook_becomes_a_page_with_its_outputs() -> None:
    def output(**data: object) -> dict[str, object]:
        return {"output_type": "display_data", "data": data}

    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "Words."]},
        {
            "cell_type": "code",
            "source": ["print(1)"],
            "outputs": [
                {"output_type": "stream", "text": ["1\n"]},
                output(**{"image/svg+xml": ["<svg/>"], "text/plain": ["<Figure>"]}),
                output(**{"image/png": base64.b64encode(PNG).decode(), "text/plain": ""}),
                output(**{"text/plain": ["array([1])"]}),
            ],
        },
        {"cell_type": "code", "source": [], "outputs": []},
    ]
    text, pictures = hooks()["page_of"]({"cells": cells}, "how")
    assert text.split("\n\n") == [
        "# Title\nWords.",
        "```python\nprint(1)\n```",
        "```text\n1\n```",
        "![Output of the cell above](how-1.svg)",
        "![Output of the cell above](how-2.png)",
        "```text\narray([1])\n```\n",
    ]
    assert pictures == {"how-1.svg": b"<svg/>", "how-2.png": PNG}


def test_a_fence_is_longer_than_those_inside() -> None:
    assert hooks()["fenced"]("```\nx\n```", "text") == "````text\n```\nx\n```\n````"


def test_links_to_a_notebook_lead_to_its_page() -> None:
    convert = hooks()["on_page_markdown"]
    assert convert("[a](tutorials/how.ipynb#x) `how.ipynb`", None) == (
        "[a](tutorials/how.md#x) `how.ipynb`"
    )
