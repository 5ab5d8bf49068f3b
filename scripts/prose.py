"""Check the prose of the code: docstrings, comments and messages.

``python scripts/prose.py [PATH ...]`` prints each mistake as ``file:line: mistake`` and exits
with 1 if there is one. Without paths it checks every Python and SQL file of ``src``, ``services``
and ``scripts``, except those in ``NOT_YET``.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

NOT_YET: tuple[str, ...] = ("src/zerofleet/database/tables/matches.sql",)
"""Folders and files whose prose still has mistakes, or whose text is frozen; a clean file must
leave the list."""

MOST_WORDS = 35
"""Longest sentence of a docstring, in words."""

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


def main(names: list[str]) -> int:
    """Print the mistakes and return the exit status of the process."""
    paths = [Path(name).resolve() for name in names] or [
        path for path in checked_files() if not is_excused(path)
    ]
    found = [mistake for path in paths for mistake in mistakes_of(path)]
    for mistake in found:
        print(mistake)
    return 1 if found else 0


def checked_files() -> list[Path]:
    """Return every Python and SQL file whose prose is checked."""
    patterns = [
        f"{folder}/*.{end}" for folder in ("src", "services", "scripts") for end in ("py", "sql")
    ]
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", *patterns],  # nosec B607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [ROOT / line for line in listing.stdout.splitlines()]
    return [path for path in paths if path.is_file() and path.resolve() != Path(__file__).resolve()]


def is_excused(path: Path) -> bool:
    """Return whether ``NOT_YET`` names the file or one of its folders."""
    name = path.relative_to(ROOT).as_posix()
    return any(name == each or name.startswith(f"{each}/") for each in NOT_YET)


def mistakes_of(path: Path) -> list[str]:
    """Return one line for each mistake in the prose of a file."""
    source = path.read_text(encoding="utf-8")
    texts = _python_texts(source) if path.suffix == ".py" else _sql_comments(source)
    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    return [f"{name}:{text.line}: {mistake}" for text in texts for mistake in _mistakes(text)]


def _mistakes(text: Text) -> Iterator[str]:
    if not text.is_message and (match := _FRAGMENT.match(text.words)):
        yield f"begins with {match[0]!r}: put the subject first"
    if text.is_docstring:
        for sentence in _sentences(text.words):
            count = len(sentence.split())
            if count > MOST_WORDS:
                yield f"a sentence of {count} words: {sentence[:60]}..."
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
