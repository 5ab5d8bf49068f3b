"""The gate: above the threshold, never at it; a draw is half a point."""

import pytest

from services.evaluator.gate import judge
from zerofleet.database import MatchScore


@pytest.mark.parametrize(
    ("score", "threshold", "verdict"),
    [
        (MatchScore(56, 0, 44), 0.55, "promoted"),
        (MatchScore(55, 0, 45), 0.55, "rejected"),
        (MatchScore(220, 0, 180), 0.55, "rejected"),
        (MatchScore(11, 88, 1), 0.55, "rejected"),
        (MatchScore(12, 87, 1), 0.55, "promoted"),
        (MatchScore(0, 100, 0), 0.49, "promoted"),
        (MatchScore(0, 100, 0), 0.5, "rejected"),
        (MatchScore(0, 100, 0), 0.55, "rejected"),
        (MatchScore(0, 0, 2), 0.0, "rejected"),
        (MatchScore(2, 0, 0), 1.0, "rejected"),
    ],
)
def test_verdicts(score: MatchScore, threshold: float, verdict: str) -> None:
    assert judge(score.score, threshold) == verdict
