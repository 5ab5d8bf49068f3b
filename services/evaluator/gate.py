"""The gate: what the stored pairs of a match say about its candidate, whoever asks and when.

A pair counts when it and every pair before it, in the order of openings, is complete: pairs of
short games are over first, and a verdict on them would be one on short games. A pair that only
repeats earlier games does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from services.evaluator.sprt import llr_bound, log_likelihood_ratio, regularised
from zerofleet.database import Grounds, MatchRow, Pair


@dataclass(frozen=True, slots=True)
class Standing:
    """A match so far; ``verdict`` is None while it goes on."""

    verdict: Literal["promoted", "rejected"] | None
    grounds: Grounds


def judge(match: MatchRow, pairs: Sequence[Pair]) -> Standing:
    """Judge a match by its rule.

    A sequential test looks at the pairs after each of them, so that its verdict depends neither on
    how many were played at once nor on who played them; what was played after it ended does not
    count. All games of the match played without that, the score decides: promoted when it is above
    the threshold, never at it (AlphaGo Zero asks for more than 55% of 400 games: Nature 2017,
    Methods, "Evaluator"). If all counted games were drawn, the rule for that decides instead.

    Args:
        match: with its rule.
        pairs: those complete, in the order of openings.
    """
    whole = match.games // 2
    prefix = [pair for index, pair in enumerate(pairs[:whole]) if pair.opening == index]
    counts = _cumulative(prefix)
    ratios = _ratios(match, counts)
    crossed = _crossing(match, ratios)
    decided_by, end = ("sprt", crossed + 1) if crossed is not None else ("threshold", len(prefix))
    counted = [pair for pair in prefix[:end] if not pair.repeated]
    score = sum(pair.points for pair in counted) / (2 * len(counted)) if counted else None
    verdict: Literal["promoted", "rejected"] | None = None
    if score is not None and (crossed is not None or len(prefix) == whole):
        wins = score > match.threshold if crossed is None else bool(ratios[crossed] > 0)
        if match.draws_only is not None and all(pair.scores == (0.5, 0.5) for pair in counted):
            decided_by, wins = "draws_only", match.draws_only == "promote"
        verdict = "promoted" if wins else "rejected"
    grounds = Grounds(
        decided_by=decided_by if verdict else None,
        score=score,
        llr=float(ratios[end - 1]) if len(ratios) else None,
        games_counted=2 * len(counted),
        duplicates=2 * (end - len(counted)),
        pentanomial=tuple(counts[end - 1].tolist()) if end else (0,) * 5,
    )
    return Standing(verdict, grounds)


def _cumulative(pairs: Sequence[Pair]) -> NDArray[np.int64]:
    """Counts [pairs, 5] of the outcomes up to each pair; repeated ones add nothing."""
    outcomes = np.zeros((len(pairs), 5), np.int64)
    for row, pair in zip(outcomes, pairs, strict=True):
        if not pair.repeated:
            row[round(2 * pair.points)] = 1
    return np.cumsum(outcomes, axis=0)


def _ratios(match: MatchRow, counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The log-likelihood ratio [pairs] after each pair; empty without a sequential test."""
    if match.test != "sprt" or match.sprt_elo0 is None or match.sprt_elo1 is None:
        return np.zeros(0)
    return log_likelihood_ratio(regularised(counts), (match.sprt_elo0, match.sprt_elo1))


def _crossing(match: MatchRow, ratios: NDArray[np.float64]) -> int | None:
    """The first pair after which the ratio is at a bound; None while it is between them."""
    if match.sprt_error is None:
        return None
    [at_bound] = np.nonzero(np.abs(ratios) >= llr_bound(match.sprt_error))
    return int(at_bound[0]) if len(at_bound) else None
