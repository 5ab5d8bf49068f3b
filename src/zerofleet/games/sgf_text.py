"""SGF as nodes of properties, from text or from a file's bytes; the grammar (FF4) is sgfmill's.

SGF is older than UTF-8. Files from Japan, China, Taiwan and Korea are often in Shift-JIS, GBK, Big5
or EUC-KR. There the second byte of a character may be a backslash (0x5C) or a bracket (0x5D), which
SGF reads as an escape or as the end of a value. So a file is decoded before it is parsed, as SGFC
and Sabaki do.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sgfmill import sgf_grammar

from zerofleet.errors import InvalidRequestError

MAX_CHARACTERS = 1 << 18
"""Longest text that is read: about a hundred times a game of 19x19 without comments."""
MAX_BYTES = 4 * MAX_CHARACTERS
"""Longest file that is read: as many characters of four bytes each."""

Node = dict[str, list[str]]
"""The values of each property, as they stand between brackets."""

_grammar: Any = sgf_grammar  # sgfmill has no types

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CA = re.compile(rb"(?<![A-Za-z])C[a-z]*A[a-z]*\s*\[\s*([!-Z^-~]{1,40})\s*\]")
# Encodings that CA may name, by Python's names. Others change ASCII (UTF-7, EBCDIC), or are very
# slow for a long file (IDNA, Punycode).
_DECLARABLE = re.compile(
    r"utf-8|ascii|iso(8859-|2022_)\w+|cp(437|8[5-7]\d|9\d\d|125\d)|koi8-\w|big5\w*|gb\w+|hz|euc_\w+"
    r"|shift_jis\w*|johab|tis-620|mac-\w+"
)
# Wider encodings of the same bytes, which Windows and browsers take for those that files name
# (WHATWG Encoding Standard, section 4.2).
_WIDER = {
    "shift_jis": ("cp932", "shift_jis_2004"),
    "cp932": ("cp932", "shift_jis_2004"),
    "gb2312": ("gb18030",),
    "gbk": ("gb18030",),
    "big5": ("cp950", "big5hkscs", "big5"),
    "cp950": ("cp950", "big5hkscs", "big5"),
    "euc_kr": ("cp949",),
    "euc_jp": ("euc_jp", "euc_jis_2004"),
}
_MULTI_BYTE = ("cp932", "gb18030", "cp950", "cp949", "euc_jp")
# Stands for every single-byte encoding: it fits all bytes, and such encodings have the same bytes
# for the characters of SGF's syntax.
_SINGLE_BYTE = "latin-1"
# Properties that define a game, unlike names and comments.
_PLAYED = ("GM", "SZ", "KM", "HA", "RU", "AP", "B", "W", "AB", "AW", "AE")


def decode(data: bytes) -> str:
    """Decode the bytes of an SGF file.

    The encoding is that of a byte order mark, otherwise that of CA[], otherwise UTF-8. If the bytes
    do not fit it, the file is read in each common encoding of SGF files. A wrong encoding hides or
    adds closing brackets, so the file is not SGF, or its values contain other properties. If all
    valid readings have the same game, any of them will do, because we use no names or comments.

    General detectors such as charset-normalizer need more text than the names of two players.

    Raises:
        InvalidRequestError: the file is too long; or its encoding is not clear, and the game
            depends on it.
    """
    if len(data) > MAX_BYTES:
        raise InvalidRequestError(f"the SGF has {len(data)} bytes: at most {MAX_BYTES} are read")
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            try:
                return data.decode(encoding)
            except UnicodeDecodeError as error:
                raise InvalidRequestError(
                    f"the SGF begins as {encoding}, but byte {error.start} is not valid: save the "
                    "file as UTF-8"
                ) from error
    named = _read_declared(data)
    if data.isascii():
        return data.decode("ascii") if named is None else named.text  # ISO-2022-JP is ASCII too
    unicode = _Reading.of(data, "utf-8")
    if named is None and unicode is not None:
        return unicode.text
    if unicode is not None:
        others = [unicode]
    elif named is None:
        others = [_Reading.of(data, each) for each in (*_MULTI_BYTE, _SINGLE_BYTE)]
    elif len(named.text) == len(data):
        others = [_Reading.of(data, each) for each in _MULTI_BYTE]
    else:
        others = [_Reading.of(data, _SINGLE_BYTE)]
    readings = [each for each in (named, *others) if each is not None]
    parsed = [each for each in readings if each.game]
    fewest = min((each.brackets for each in parsed), default=0)
    best = [each for each in parsed if each.brackets == fewest]
    if not best:
        return readings[0].text  # the parser says what is wrong
    if named is not None and any(each.game == named.game for each in best):
        return named.text
    is_free = named is None or not named.game or unicode in best
    # A reading that lost properties of the game to a name is no better for having few brackets.
    is_whole = best[0].num_properties == max(each.num_properties for each in parsed)
    if is_free and is_whole and all(each.game == best[0].game for each in best):
        return best[0].text
    said = "it has no CA[] that fits" if named is None else "CA[] does not seem to be right"
    raise InvalidRequestError(
        f"the moves of the SGF depend on its encoding, which is not clear ({said}): save the file "
        "as UTF-8, or name its encoding in the root, such as CA[Shift_JIS], CA[GBK] or CA[Big5]"
    )


def parse_main_line(text: str) -> list[Node]:
    """The nodes of the first game's main line, from the root.

    Raises:
        InvalidRequestError: no SGF, or too long.
    """
    if len(text) > MAX_CHARACTERS:
        raise InvalidRequestError(
            f"the SGF has {len(text)} characters: at most {MAX_CHARACTERS} are read"
        )
    content = text.encode("utf-8", errors="replace")
    try:
        tree = _grammar.parse_sgf_game(content)
    except ValueError as error:
        raise InvalidRequestError(f"not SGF: {error}") from error
    return [_decoded(properties) for properties in _grammar.main_sequence_iter(tree)]


def format_nodes(nodes: Iterable[Node]) -> str:
    """One game without variations; values must be escaped where they hold free text."""
    tree = _grammar.Coarse_game_tree()
    tree.sequence = [
        {name: [value.encode() for value in values] for name, values in node.items()}
        for node in nodes
    ]
    return _grammar.serialise_game_tree(tree).decode()


def escape(text: str) -> str:
    """Free text as a property's value."""
    return _grammar.escape_text(text.encode("utf-8", errors="replace")).decode()


@dataclass(frozen=True, slots=True)
class _Reading:
    """A file decoded with one encoding."""

    text: str
    game: tuple[tuple[tuple[str, ...], ...], ...]
    """Properties that define the game, for comparison; empty if the text is not SGF."""
    brackets: int
    """Number of opening brackets inside values."""

    @property
    def num_properties(self) -> int:
        """Number of properties in the game."""
        return sum(map(len, self.game))

    @classmethod
    def of(cls, data: bytes, encoding: str) -> _Reading | None:
        """Return the reading in an encoding; None if the bytes do not fit it."""
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            return None
        try:
            nodes = parse_main_line(text)
        except InvalidRequestError:
            return cls(text, (), 0)
        game = tuple(
            tuple(
                (name, *(value if value.isascii() else "" for value in node[name]))
                for name in _PLAYED
                if name in node
            )
            for node in nodes
        )
        values = (value for node in nodes for values in node.values() for value in values)
        return cls(text, game, sum(value.count("[") for value in values))


def _read_declared(data: bytes) -> _Reading | None:
    """Return the reading in the encoding of CA; None without CA or if the bytes do not fit."""
    found = _CA.search(data)
    if found is None:
        return None
    name = found[1].decode("ascii").lower().removeprefix("x-")
    try:
        known = codecs.lookup(name).name
    except (LookupError, ValueError):
        return None
    if not _DECLARABLE.fullmatch(known):
        return None
    readings = (_Reading.of(data, each) for each in _WIDER.get(known, (known,)))
    return next((each for each in readings if each is not None), None)


def _decoded(properties: Mapping[str, list[bytes]]) -> Node:
    return {
        name: [bytes(value).decode("utf-8", errors="replace") for value in values]
        for name, values in properties.items()
    }
