"""What programs of chess need to know about a game's name."""

from __future__ import annotations

from zerofleet_core import game_spec


def is_chess(game: str) -> bool:
    """Return whether a name is the core's chess with any rules."""
    return game.partition("(")[0].strip() == "chess"


def is_chess960(game: str) -> bool:
    """Return whether a name is Chess960: castling moves the king onto its rook."""
    return is_chess(game) and "chess960=true" in game_spec(game).name.replace(" ", "")
