"""The Go Text Protocol, version 2, as text: commands in, responses out (Farnebäck 2002)."""

from __future__ import annotations

from dataclasses import dataclass

from zerofleet.errors import ZerofleetError

_PLAYERS = {"b": 0, "black": 0, "w": 1, "white": 1}


class GtpError(ZerofleetError):
    """The reason why a command failed, in one line after "?"."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command."""

    number: str  # the controller's ID, echoed; empty without one
    name: str
    arguments: tuple[str, ...]


def parse_line(line: str) -> Command | None:
    """Return the command of a line; None for a comment or an empty line.

    Control characters are dropped and "#" begins a comment (section 3.1). Bytes that are not UTF-8,
    as in names of old files, become surrogates, as in Python's paths (PEP 383).
    """
    text = "".join(
        c for c in line.replace("\t", " ") if c.isprintable() or "\udc80" <= c <= "\udcff"
    )
    words = text.partition("#")[0].split()
    number = words.pop(0) if words and words[0].isascii() and words[0].isdecimal() else ""
    if not words:
        return None
    return Command(number, words[0], tuple(words[1:]))


def success(command: Command, text: str = "") -> str:
    """Return a response. An empty line ends it, so empty lines of the text are dropped."""
    lines = [line for line in text.split("\n") if line]
    first = " " if text and not text.startswith("\n") else "\n" if lines else ""
    return f"={command.number}{first}{chr(10).join(lines)}\n\n"


def failure(command: Command, reason: str) -> str:
    """Return an error response."""
    return f"?{command.number} {' '.join(reason.split())}\n\n"


def parse_player(text: str) -> int:
    """Return the player of a colour: 0 for black, who moves first, 1 for white.

    Raises:
        GtpError: it is not a colour.
    """
    player = as_player(text)
    if player is None:
        raise GtpError(f"'{text}' is not a colour: give b or w")
    return player


def as_player(text: str) -> int | None:
    """Return the player of a colour; None for another word."""
    return _PLAYERS.get(text.lower())


def parse_decimal(text: str, name: str) -> float:
    """Return a number that is not negative.

    Raises:
        GtpError: it is not such a number.
    """
    whole, _, part = text.partition(".")
    if not ((whole + part).isascii() and (whole + part).isdecimal() and len(text) < 20):
        raise GtpError(f"{name} is '{text}': give a number, 0 or more")
    return float(text)


def parse_number(text: str, name: str) -> int:
    """Return a whole number that is not negative.

    Raises:
        GtpError: it is not such a number.
    """
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise GtpError(f"{name} is '{text}': give a whole number")
    return int(text)
