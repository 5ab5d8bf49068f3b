"""Positions of chess whose perfect play is known: endgames with few pieces, and forced mates.

They come from two files of this package. A line has a position in Forsyth-Edwards notation (FEN), a
sign for each legal move, and the name of the position's group, with tabs between them. The moves
are in alphabetical order of their UCI names.

- ``chess_endgames.txt``: three or four pieces, balanced over material, side to move and outcome. A
  sign is the move's outcome under perfect play: ``+`` win, ``=`` draw, ``-`` loss. The groups are
  the kinds of material, such as ``KRKB``. ``scripts/chess_endgames.py`` made it from Syzygy tables
  (de Man 2013).
- ``chess_mates.txt``: the player to move can force mate in one, two or three moves. ``+`` keeps the
  shortest mate and ``=`` does not. The groups are the lengths. ``scripts/chess_mates.py`` made it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from zerofleet_core import State, game_spec

from zerofleet.exam.sample import SIGNS, LabelledPosition

ChessPositionKind = Literal["endgames", "mates"]
_FILES: dict[ChessPositionKind, Path] = {
    "endgames": Path(__file__).with_name("chess_endgames.txt"),
    "mates": Path(__file__).with_name("chess_mates.txt"),
}


def chess_sample(
    game: str, kind: ChessPositionKind, size: int | None = None
) -> list[LabelledPosition]:
    """Return the first ``size`` positions of a kind, or all; the groups are mixed.

    Args:
        game: the core's chess with any rules.
    """
    lines = _FILES[kind].read_text(encoding="ascii").splitlines()[:size]
    return [_read(game, line) for line in lines]


def _read(game: str, line: str) -> LabelledPosition:
    start, signs, group = line.split("\t")
    state = State(game, [], start)
    outcomes: list[int | None] = [None] * game_spec(game).num_actions
    moves = sorted(state.legal_actions(), key=state.action_to_string)
    for action, sign in zip(moves, signs, strict=True):
        outcomes[action] = SIGNS[sign]
    return LabelledPosition((), tuple(outcomes), start, group)
