"""SGF as nodes of properties; the grammar (FF4) is sgfmill's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sgfmill import sgf_grammar

from zerofleet.errors import InvalidRequestError

MAX_CHARACTERS = 1 << 18
"""Of a file that is read: some hundred times a game of 19x19 without comments."""

Node = dict[str, list[str]]
"""The values of each property, as they stand between brackets."""

_grammar: Any = sgf_grammar  # sgfmill has no types


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


def _decoded(properties: Mapping[str, list[bytes]]) -> Node:
    return {
        name: [bytes(value).decode("utf-8", errors="replace") for value in values]
        for name, values in properties.items()
    }
