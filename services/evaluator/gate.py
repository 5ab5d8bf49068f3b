"""The gate: what a match's score says about its candidate."""

from __future__ import annotations

from typing import Literal


def judge(score: float, threshold: float) -> Literal["promoted", "rejected"]:
    """The verdict of a match: promoted when the score is above ``threshold``, never at it.

    AlphaGo Zero asks for more than 55% of 400 games (Nature 2017, Methods, "Evaluator").

    Args:
        score: points per game in [0, 1]; a draw is half a point.
        threshold: of the match.
    """
    return "promoted" if score > threshold else "rejected"
