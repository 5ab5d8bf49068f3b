"""Names of anchors: opponents that never change."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Literal, Self

from zerofleet.printable import printable, shortened

ANCHORS = (
    "random, search, gnugo:1 to gnugo:10, uci:PROGRAM?OPTION=VALUE, gtp:COMMAND, or "
    "python:MODULE:CLASS"
)
"""The forms of a name, for messages."""
_OURS = re.compile(r"random|search|gnugo:([1-9]|10)")
# Migrations 1008 and 1012 have the same expressions. A semicolon separates commands in
# ZEROFLEET_ENGINES.
_ENGINE = re.compile(r"(uci|gtp):([!-:<-~]([ -:<-~]{0,193}[!-:<-~])?)")
_CLASS = re.compile(r"python:[A-Za-z_][A-Za-z0-9_.]{0,119}:[A-Za-z_][A-Za-z0-9_]{0,59}")
_LIMITS = ("nodes", "movetime", "depth")
_MOST = 1_000_000_000
_USUAL_LIMITS = (("nodes", 10_000),)


@dataclass(frozen=True, slots=True)
class EngineName:
    """An anchor with processes of its own.

    ``uci:PROGRAM?OPTION=VALUE&...``, ``gtp:COMMAND`` or ``python:MODULE:CLASS``.
    """

    protocol: Literal["uci", "gtp", "python"]
    command: str
    """The program and its arguments, as in a shell; for a class its name with ``python:``."""
    options: tuple[tuple[str, str], ...] = ()
    """UCI options, by name."""
    limits: tuple[tuple[str, int], ...] = ()
    """Arguments of UCI's ``go``: nodes, milliseconds, or plies."""

    @classmethod
    def of(cls, name: str) -> Self | None:
        """Read a name; None if it is not a program's.

        Raises:
            ValueError: the name has a mistake.
        """
        if _CLASS.fullmatch(name):
            return cls("python", name)
        found = _ENGINE.fullmatch(name)
        if found is None:
            return None
        if found[1] == "gtp":
            return cls("gtp", _command(name, found[2]))
        command, _, query = found[2].partition("?")
        options, limits = dict[str, str](), dict[str, int]()
        for pair in query.split("&") if query else ():
            key, equals, value = (part.strip() for part in pair.partition("="))
            if not (key and equals and value):
                raise ValueError(f"{_quoted(name)}: '{pair}' is not OPTION=VALUE")
            if key in options or key in limits:
                raise ValueError(f"{_quoted(name)}: '{key}' is given twice")
            if key in _LIMITS:
                limits[key] = _number(name, key, value)
            else:
                options[key] = value
        return cls(
            "uci",
            _command(name, command),
            tuple(options.items()),
            tuple(limits.items()) or _USUAL_LIMITS,
        )

    @property
    def arguments(self) -> list[str]:
        """The program and its arguments."""
        return shlex.split(self.command)


def check_anchor(name: str) -> None:
    """Check the name of an anchor, not whether it can play here.

    Raises:
        ValueError: it is not the name of one; the message names it.
    """
    if _OURS.fullmatch(name) is None and EngineName.of(name) is None:
        raise ValueError(f"{_quoted(name)} is not an anchor: give {ANCHORS}")


def _command(name: str, text: str) -> str:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{_quoted(name)}: {str(error).lower()}") from error
    if not words or not words[0]:
        raise ValueError(f"{_quoted(name)} names no program")
    return text.strip()


def _number(name: str, key: str, text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 12 else 0
    if not 0 < number <= _MOST:
        raise ValueError(
            f"{_quoted(name)}: {key} is '{text}': give a whole number from 1 to {_MOST:,}"
        )
    return number


def _quoted(name: str) -> str:
    return f"'{printable(shortened(name))}'"
