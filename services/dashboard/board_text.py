"""A position's text as a grid: rows of cells, with the names of rows and columns where it has any.

Three forms are read: cells apart (``3 . x o``), cells together (``3.xo``), and Forsyth's of chess
and its relatives (``rnbqkbnr/pppppppp/8/...``).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

EMPTY = "."
_ROW_NAME = re.compile(r"\s*(\d{1,2})?")
_FORSYTH = re.compile(r"\d+|\+?[A-Za-z]~?")
_FEWEST = 2  # rows, and columns, of a grid


@dataclass(frozen=True, slots=True)
class TextGrid:
    """What stands on each point, as the text writes it; ``EMPTY`` where nothing does."""

    cells: tuple[str, ...]  # row by row
    row_names: tuple[str, ...]  # empty: the text names none
    column_names: tuple[str, ...]
    indent: int  # characters that each row begins further right than the one above
    forsyth: bool


def read_grid(text: str, rows: int, columns: int) -> TextGrid | None:
    """The grid that a position's text shows; None where it shows none of that size, or several."""
    if rows < _FEWEST or columns < _FEWEST:
        return None
    return _forsyth(text, rows, columns) or _lines(text, rows, columns)


def _forsyth(text: str, rows: int, columns: int) -> TextGrid | None:
    parts = text.split(" ", 1)[0].partition("[")[0].split("/")
    if len(parts) != rows:
        return None
    cells: list[str] = []
    for part in parts:
        row: list[str] = []
        for found in _FORSYTH.findall(part):
            row += [EMPTY] * int(found) if found.isdecimal() else [found]
        if len(row) != columns:
            return None
        cells += row
    return TextGrid(tuple(cells), (), (), 0, forsyth=True)


def _lines(text: str, rows: int, columns: int) -> TextGrid | None:
    found: list[tuple[int, str, tuple[str, ...]]] = []  # indent, name, cells
    column_names: tuple[str, ...] = ()
    for line in text.splitlines():
        read = _line(line, columns)
        if read is None:
            continue
        if _is_sequence(read[2]):
            column_names = read[2]
        else:
            found.append(read)
    if len(found) != rows:
        return None
    names = tuple(name for _, name, _ in found)
    steps = {below[0] - above[0] for above, below in itertools.pairwise(found)}
    indent = steps.pop() if len(steps) == 1 and not any(names) else 0
    cells = tuple(cell for _, _, row in found for cell in row)
    return TextGrid(cells, names if all(names) else (), column_names, max(indent, 0), forsyth=False)


def _line(line: str, columns: int) -> tuple[int, str, tuple[str, ...]] | None:
    """The indent, name and cells of a row; None for a line that is none."""
    line = line.rstrip()
    indent = len(line) - len(line.lstrip())
    name = _ROW_NAME.match(line)
    ends = (name.end(1) - 1, name.end(1)) if name and name[1] else ()
    for end in sorted({0, *ends}):
        label, rest = line[:end].strip(), line[end:]
        words = rest.split()
        if len(words) == columns + 1 and words[-1] == label:  # the name on both sides
            words.pop()
        if len(words) == 1 and len(words[0]) == columns:
            return indent, label, tuple(words[0])
        if len(words) == columns and all(len(word) == 1 for word in words):
            return indent, label, tuple(words)
    return None


def _is_sequence(cells: Sequence[str]) -> bool:
    """Whether a line names the columns: a b c, or 1 2 3; Go leaves the letter i out."""
    text = "".join(cells).lower()
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    return any(
        text == known[: len(text)]
        for known in (alphabet, alphabet.replace("i", ""), "123456789", "0123456789")
    )
