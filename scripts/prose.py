"""Check the prose of the code and the pages: docstrings, comments, messages, README and docs.

``python scripts/prose.py [PATH ...]`` prints each mistake as ``file:line: mistake`` and exits
with 1 if there is one. Without paths it checks every Python and SQL file of ``src``, ``services``,
``scripts``, ``bench``, ``tests`` and ``examples``, README.md, CHANGELOG.md, CONTRIBUTING.md,
bench/README.md, and the pages and notebooks of ``docs``, except those in ``NOT_YET`` and
``PAGES_NOT_YET``. It skips itself and its own test, which contain mistakes as data.

``python scripts/prose.py --figures [PATH ...]`` prints a table of the pages: words, the mean and
the longest sentence, and numbers in 100 words of prose.
"""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

NOT_YET: tuple[str, ...] = ()
"""Folders and files of code whose prose still has mistakes; a clean file must leave the list."""

PAGES_NOT_YET: tuple[str, ...] = ()
"""Pages whose prose still has mistakes; a test demands that there are none."""

MOST_WORDS = 35
"""Longest sentence of a docstring or a page, in words."""

MOST_NUMBERS = 4
"""Most numbers in a sentence of a page, outside code and tables."""

_FRAGMENT = re.compile(r"(Of|That|Those|What|Likewise)\b", re.IGNORECASE)
_WORDS = {
    r"alike": "the same, both",
    r"anew": "again",
    r"as yet": "yet",
    r"beside": "next to, with, compared with",
    r"errs": "makes mistakes",
    r"for ever": "forever",
    r"gives? away": "loses",
    r"heard of": "responds, sends heartbeats",
    r"(is|are) away": "is down, is unreachable",
    r"likewise": "repeat the noun",
    r"no more(?! than)": "no longer, no further",
    r"so many": "this many, N",
    r"that of": "repeat the noun",
    r"those (of|that)": "repeat the noun",
}
_BANNED = [(re.compile(rf"\b{word}\b", re.IGNORECASE), use) for word, use in _WORDS.items()]
_DIRECTIVE = re.compile(r"noqa|type:|pyright:|nosec|fmt:|!/|https?:")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_NEW_PARAGRAPH = re.compile(r"\s*(?:[-*] |\d+\. |\*{0,2}\w+(?:, \w+)*: |.*\S {3,}\S)")


@dataclass(frozen=True)
class Text:
    """A piece of prose and the line of its file on which it starts."""

    line: int
    words: str
    is_docstring: bool = False
    is_message: bool = False
    is_page: bool = False
    is_row: bool = False


def main(names: list[str]) -> int:
    """Print the mistakes and return the exit status of the process."""
    if names[:1] == ["--figures"]:
        print_figures([Path(name).resolve() for name in names[1:]] or pages())
        return 0
    paths = [Path(name).resolve() for name in names] or [
        path for path in checked_files() if not is_excused(path)
    ]
    found = [mistake for path in paths for mistake in mistakes_of(path)]
    for mistake in found:
        print(mistake)
    return 1 if found else 0


def checked_files() -> list[Path]:
    """Return every file whose prose is checked."""
    code = ("src", "services", "scripts", "bench", "tests", "examples")
    found = _listed([f"{folder}/*.{end}" for folder in code for end in ("py", "sql")])
    own = (ROOT / "scripts" / "prose.py", ROOT / "tests" / "repo" / "test_prose.py")
    return [path for path in found if path not in own] + pages()


def pages() -> list[Path]:
    """Return every page whose prose is checked."""
    own = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "bench/README.md")
    return _listed([*own, "docs/*.md", "docs/*.ipynb"])


def _listed(patterns: list[str]) -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", *patterns],  # nosec B607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [ROOT / line for line in listing.stdout.splitlines()]
    return [path for path in paths if path.is_file()]


def is_excused(path: Path) -> bool:
    """Return whether a list of exceptions names the file or one of its folders."""
    name = path.relative_to(ROOT).as_posix()
    return any(name == each or name.startswith(f"{each}/") for each in (*NOT_YET, *PAGES_NOT_YET))


def mistakes_of(path: Path) -> list[str]:
    """Return one line for each mistake in the prose of a file."""
    source = path.read_text(encoding="utf-8")
    texts = _TEXTS_OF[path.suffix](source)
    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    return [f"{name}:{text.line}: {mistake}" for text in texts for mistake in _mistakes(text)]


def _mistakes(text: Text) -> Iterator[str]:
    if not (text.is_message or text.is_page) and (match := _FRAGMENT.match(text.words)):
        yield f"begins with {match[0]!r}: put the subject first"
    if text.is_docstring:
        for sentence in _sentences(text.words):
            count = len(sentence.split())
            if count > MOST_WORDS:
                yield f"a sentence of {count} words: {sentence[:60]}..."
    if text.is_page and not text.is_row:
        for sentence in _SENTENCE_END.split(text.words):
            count = len(sentence.split())
            if count > MOST_WORDS:
                yield f"a sentence of {count} words: {sentence[:60]}..."
            if (numbers := len(_numbers(sentence))) > MOST_NUMBERS:
                yield f"{numbers} numbers in a sentence, use a table: {sentence[:60]}..."
    for pattern, use in _BANNED:
        if match := pattern.search(text.words):
            yield f"{match[0]!r}: write {use}"


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a docstring; list items, arguments and table rows start new ones."""
    paragraph: list[str] = []
    for line in [*text.splitlines(), ""]:
        if not line.strip() or _NEW_PARAGRAPH.match(line):
            yield from _SENTENCE_END.split(" ".join(paragraph))
            paragraph = []
        paragraph.append(line.strip())


def _python_texts(source: str) -> Iterator[Text]:
    docstrings: set[int] = set()
    tree = ast.parse(source)
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(words)) as constant):
                docstrings.add(id(constant))
                yield Text(node.lineno, words, is_docstring=True)
            case _:
                pass
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(words)) if id(node) not in docstrings:
                yield Text(node.lineno, " ".join(words.split()), is_message=True)
            case _:
                pass
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [(token.start, token.string) for token in tokens if token.type == tokenize.COMMENT]
    yield from _joined((line, column, text.lstrip("#")) for (line, column), text in comments)


def _sql_comments(source: str) -> Iterator[Text]:
    found = [
        (number, re.search(r"--.*", line)) for number, line in enumerate(source.splitlines(), 1)
    ]
    yield from _joined(
        (number, each.start(), each[0].lstrip("-")) for number, each in found if each
    )


def _notebook_texts(source: str) -> Iterator[Text]:
    """Yield the prose of a notebook; a line counts from the start of its cell."""
    for cell in json.loads(source)["cells"]:
        if cell["cell_type"] == "markdown":
            yield from _page_texts("".join(cell["source"]))


def _page_texts(source: str) -> Iterator[Text]:
    """Yield paragraphs, list items, headings and rows of tables, without code and addresses."""
    block: list[str] = []
    start, fence = 1, ""
    for number, line in enumerate([*source.splitlines(), ""], 1):
        stripped = line.strip()
        opening = re.match(r"`{3,}|~{3,}", stripped)
        is_row = stripped.startswith("|")
        begins = bool(_BLOCK_START.match(stripped)) or is_row
        if block and (not stripped or begins or opening or fence):
            yield Text(start, _plain(" ".join(block)), is_page=True)
            block = []
        if fence:
            fence = "" if stripped.startswith(fence) and not stripped.strip("`~") else fence
        elif opening:
            fence = opening[0]
        elif is_row:
            yield Text(number, _plain(stripped), is_page=True, is_row=True)
        elif stripped and not _NO_PROSE.match(stripped):
            start = start if block else number
            block.append(_BLOCK_START.sub("", stripped))


def _plain(text: str) -> str:
    """Return Markdown as a reader sees it; code counts as one word."""
    text = re.sub(r"(`+).+?\1", "code", text)
    text = re.sub(r"!\[[^]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"<[^>]+>|[*_]{2}", "", text)


def _numbers(sentence: str) -> list[str]:
    return [word for word in sentence.split() if _NUMBER.fullmatch(word)]


def print_figures(paths: list[Path]) -> None:
    """Print a table of the pages, and sums of their words."""
    print(f"{'page':58} words  mean  longest  numbers/100")
    sums = {"all pages of docs": 0, "without the generated reference": 0}
    for path in paths:
        texts = list(_TEXTS_OF[path.suffix](path.read_text(encoding="utf-8")))
        prose = [text.words for text in texts if not text.is_row]
        sentences = [each.split() for words in prose for each in _SENTENCE_END.split(words)]
        lengths = [len(each) for each in sentences if len(each) > 3] or [0]
        numbers = sum(len(_numbers(" ".join(each))) for each in sentences)
        rate = 100 * numbers / max(sum(map(len, sentences)), 1)
        every = sum(len(text.words.split()) for text in texts)
        name = path.relative_to(ROOT).as_posix()
        if name.startswith("docs/"):
            sums["all pages of docs"] += every
            is_generated = "`scripts/reference`" in path.read_text(encoding="utf-8")
            sums["without the generated reference"] += 0 if is_generated else every
        mean = sum(lengths) / len(lengths)
        print(f"{name:58} {every:5}  {mean:4.1f}  {max(lengths):7}  {rate:11.1f}")
    for name, words in sums.items():
        print(f"{name:58} {words:5}")


def _joined(comments: Iterator[tuple[int, int, str]]) -> Iterator[Text]:
    """Join comments on successive lines that start in the same column."""
    block: list[tuple[int, int, str]] = []
    for line, column, text in [*comments, (-1, -1, "")]:
        if block and (line, column) != (block[-1][0] + 1, block[-1][1]):
            words = " ".join(each.strip() for _, _, each in block)
            if not _DIRECTIVE.match(words):
                yield Text(block[0][0], words)
            block = []
        block.append((line, column, text))


_BLOCK_START = re.compile(r"^(?:[-*] |\d+\. |#+ |> )")
_NO_PROSE = re.compile(r"<!--|!!! |:::|\[[^]]+\]: ")
_NUMBER = re.compile(r"[(\"'~±<>≤≥+-]*\d[\d.,:/-]*(?:%|x|s|ms|h|k|M|[KMGT]i?B)?[)\"'.,;:?!]*")
_TEXTS_OF: dict[str, Callable[[str], Iterator[Text]]] = {
    ".ipynb": _notebook_texts,
    ".md": _page_texts,
    ".py": _python_texts,
    ".sql": _sql_comments,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
