"""Make text of other processes, files and databases safe for a terminal.

A terminal obeys escape sequences: they change its title, fill the clipboard or hide lines.
Therefore only printable characters reach it. Colours are removed; other characters are escaped as
in Python.
"""

from __future__ import annotations

import re
import unicodedata

_MOST_CHARACTERS = 100
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def printable(text: str) -> str:
    """Return one line of printable characters; line breaks are escaped too."""
    if text.isprintable():
        return text
    return "".join(map(_shown, _COLOURS.sub("", text)))


def printable_lines(text: str) -> str:
    """Return the lines of a text, each of printable characters."""
    return "\n".join(map(printable, text.split("\n")))


def shortened(text: str) -> str:
    """Return a text that a message repeats; a long one without its end."""
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    if character == "\t" or unicodedata.category(character) == "Zs":  # for example a no-break space
        return " "
    return ascii(character)[1:-1]
