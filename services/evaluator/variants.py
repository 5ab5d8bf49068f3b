"""Variants of promoted models: which one plays fp32 of itself next, and what its games say."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from services.evaluator.rating import Z_95
from services.evaluator.sprt import moments, regularised
from zerofleet.database import MatchScore, Pair


def due_version(
    promoted: Iterable[int], accepted: Container[int], judged: int | None, every: int
) -> int | None:
    """The version whose variant is to play; None when no match is due.

    The first promoted version that has a variant is due, and then the first such version that is
    ``every`` promotions or more after it, and so on. Of several that are due only the last is
    played: the newest verdict holds. So a match that has begun stays due until another is.

    Args:
        promoted: versions in the order of their promotions; going back to one adds nothing.
        accepted: versions that have an accepted variant of the precision.
        judged: version of the newest verdict on the precision.
        every: promotions from one match to the next; 0: none is played.
    """
    chain = list(dict.fromkeys(promoted))
    if every == 0:
        return None
    begin = chain.index(judged) + every if judged in chain else 0
    due: int | None = None
    for place, version in enumerate(chain):
        if place >= begin and version in accepted:
            due, begin = version, place + every
    return due


@dataclass(frozen=True, slots=True)
class VariantStanding:
    """What the games of a variant against fp32 say, as the variant sees them."""

    score: MatchScore
    low: float  # ends of the score's 95% interval
    high: float

    @property
    def accepted(self) -> bool:
        """No loss of strength within the interval."""
        return self.high >= 0.5

    def sentence(self, precision: str, version: int) -> str:
        """For people."""
        points = self.score.wins + self.score.draws / 2
        return (
            f"{precision} of version {version} against fp32: {points:g} of {self.score.games}, "
            f"95% {self.low:.2f} to {self.high:.2f}, {'accepted' if self.accepted else 'refused'}"
        )


def variant_standing(pairs: Sequence[Pair]) -> VariantStanding:
    """Judge the complete pairs of a match; one that repeats earlier games does not count.

    The interval is the normal one of the pairs' mean score, with the variance as the sequential
    test has it: an outcome that was not seen counts half a pair, so that few pairs that all end
    alike are not taken for certainty.
    """
    counted = [pair for pair in pairs if not pair.repeated]
    games = [game for pair in counted for game in pair.scores]
    score = MatchScore(games.count(1.0), games.count(0.5), games.count(0.0))
    counts = np.zeros(5, np.int64)
    for pair in counted:
        counts[round(2 * pair.points)] += 1
    number, mean, variance = (float(each) for each in moments(regularised(counts)))
    half = Z_95 * (variance / number) ** 0.5
    return VariantStanding(
        score, max(0.0, min(mean - half, score.score)), min(1.0, max(mean + half, score.score))
    )
