"""Hooks of mkdocs for the documentation site: notebooks become pages, and the build is checked.

mkdocs.yml names this file. A notebook ``docs/**/NAME.ipynb`` becomes the page ``NAME.md`` with the
outputs that it was saved with. After the build, ``mistakes_of_site`` looks for files that a browser
would load from another origin, and for Markdown that did not become a list or a table.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

IMAGES = {"image/svg+xml": ".svg", "image/png": ".png"}
# Attributes whose address a browser loads without being asked.
LOADS = {
    ("audio", "src"),
    ("embed", "src"),
    ("iframe", "src"),
    ("image", "href"),
    ("img", "src"),
    ("img", "srcset"),
    ("input", "src"),
    ("link", "href"),
    ("object", "data"),
    ("script", "src"),
    ("source", "src"),
    ("source", "srcset"),
    ("use", "href"),
    ("video", "poster"),
    ("video", "src"),
}
OTHER_ORIGIN = re.compile(r"(?:https?:)?//", re.IGNORECASE)
LOADED_BY_CSS = re.compile(
    r"(?:url\(\s*|@import\s+)['\"]?((?:https?:)?//[^'\")\s]+)", re.IGNORECASE
)
# The theme's script fetches Mermaid from a CDN for a page that has this class.
MERMAID = re.compile(r'class="[^"]*\bmermaid\b')
NO_LIST = re.compile(r"<p>(?:(?!</p>).)*\n(?:[-*] |\d+\. |\|)", re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page and the pictures of each notebook."""
    from mkdocs.structure.files import File

    for file in list(files):
        if file.src_uri.endswith(".ipynb"):
            name = PurePosixPath(file.src_uri)
            text, pictures = page_of(json.loads(file.content_string), name.stem)
            page = str(name.with_suffix(".md"))
            files.append(File.generated(config, page, content=text))
            for picture, content in pictures.items():
                path = str(name.with_name(picture))
                files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Point links to a notebook at its page."""
    return re.sub(r"(\]\([^):\s]+)\.ipynb(#[^)\s]*)?\)", r"\1.md\2)", markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """Fail the build if the site has a mistake."""
    from mkdocs.exceptions import PluginError

    mistakes = list(mistakes_of_site(Path(config.site_dir)))
    if mistakes:
        raise PluginError("\n".join(mistakes))


def page_of(notebook: dict[str, Any], stem: str) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, and its pictures by file name."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"]).strip("\n")
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code" and source:
            parts.append(fenced(source, "python"))
            parts.extend(_output(output, stem, pictures) for output in cell["outputs"])
    return "\n\n".join(filter(None, parts)) + "\n", pictures


def _output(output: dict[str, Any], stem: str, pictures: dict[str, bytes]) -> str:
    """Return one output of a cell as Markdown; a picture is added to ``pictures``."""
    if output["output_type"] == "stream":
        return fenced("".join(output["text"]).rstrip("\n"), "text")
    data = output.get("data", {})
    for kind, suffix in IMAGES.items():
        if kind in data:
            content = "".join(data[kind])
            name = f"{stem}-{len(pictures) + 1}{suffix}"
            is_text = kind == "image/svg+xml"
            pictures[name] = content.encode() if is_text else base64.b64decode(content)
            return f"![Output of the cell above]({name})"
    if "text/markdown" in data:
        return "".join(data["text/markdown"])
    return fenced("".join(data["text/plain"]), "text") if "text/plain" in data else ""


def fenced(text: str, language: str) -> str:
    """Return a block of code; its fence is longer than any in the text."""
    fence = "`" * max(3, *(len(each) + 1 for each in re.findall(r"`{3,}", text)), 3)
    return f"{fence}{language}\n{text}\n{fence}"


def mistakes_of_site(folder: Path) -> Iterator[str]:
    """Yield one line for each mistake in a built site."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.suffix in (".html", ".svg"):
            text = path.read_text(encoding="utf-8")
            loaded = Loaded()
            loaded.feed(text)
            found = [*loaded.addresses, *LOADED_BY_CSS.findall(text)]
            yield from (f"{name} loads {address}" for address in found)
            if MERMAID.search(text):
                yield f"{name} has a Mermaid diagram, which the theme would draw by a CDN's script"
            for match in NO_LIST.finditer(text):
                line = match[0].splitlines()[-1][:60] + text[match.end() : match.end() + 40]
                yield f"{name} needs an empty line before a list or table: {line.splitlines()[0]}"
        elif path.suffix == ".css":
            text = path.read_text(encoding="utf-8")
            yield from (f"{name} loads {address}" for address in LOADED_BY_CSS.findall(text))


class Loaded(HTMLParser):
    """Addresses at other origins that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the addresses of a tag."""
        if tag == "link" and ("rel", "canonical") in attrs:
            return
        for key, value in attrs:
            if (tag, key.removeprefix("xlink:")) in LOADS and OTHER_ORIGIN.match(value or ""):
                self.addresses.append(value or "")
