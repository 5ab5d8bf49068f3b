"""Which games are chess, and values as chess programs show them: centipawns, win, draw and loss."""

from __future__ import annotations

import math

from zerofleet.games.game_specs import base_name

CLAIMABLE_ENDINGS = ("repetition", "50-move rule", "maximum length")
"""Endings after which chess programs may play on: a player must claim them, or they are unknown."""

# Leela Chess Zero's conversion (its option ScoreType, value "centipawn"): a value of 0.5 is 0.9
# pawns, 0.9 is 5.5 and 0.99 is 40.
_CENTIPAWN_SCALE = 90.0
_CENTIPAWN_SLOPE = 1.5637541897


def is_chess(game: str) -> bool:
    """Return whether a game is the built-in chess, with any rules."""
    return base_name(game).strip() == "chess"


def is_chess960(game: str) -> bool:
    """Return whether a game is Chess960, in which castling moves the king onto its rook."""
    return is_chess(game) and "chess960=true" in game.replace(" ", "")


def centipawns(value: float) -> int:
    """Return a value in [-1, 1] as a score in centipawns."""
    return round(_CENTIPAWN_SCALE * math.tan(_CENTIPAWN_SLOPE * max(-1.0, min(1.0, value))))


def outcome_chances(value: float) -> tuple[int, int, int]:
    """Return the chances of win, draw and loss per mille for a value in [-1, 1]; their sum is 1000.

    The model is two half-point coin tosses, each won with probability ``(1 + value) / 2``, as in
    ``outcome_target`` of ``zerofleet.network``.
    """
    half = (1 + max(-1.0, min(1.0, value))) / 2
    win, loss = round(1000 * half**2), round(1000 * (1 - half) ** 2)
    return win, 1000 - win - loss, loss
