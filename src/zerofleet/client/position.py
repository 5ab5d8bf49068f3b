"""A position as people and programs write it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from zerofleet.rpc.player import Actions, Sgf

Position: TypeAlias = Sequence[int] | Sequence[str] | Sgf | str
"""The actions from the start of the game: as numbers, as the game writes them (``["e5", "c3"]`` or
``"e5 c3"``), or the text of an SGF file. Empty: the start."""


def to_actions(position: Position) -> Actions:
    """The actions that a position stands for, as the wire has them."""
    if not isinstance(position, str):
        return position
    if position.lstrip().startswith("("):
        return Sgf(position)
    return position.split()
