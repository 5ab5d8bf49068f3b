"""The verdict of a gate match: what its stored pairs say about the candidate.

It is a function of the rows, whichever evaluator computes it and when. A pair counts when it and
every pair before it, in the order of openings, is complete: pairs of short games are over first,
and would bias the verdict. A pair that only repeats earlier games does not count.

The sequential test counts pairs of games by the candidate's points. Both games of a pair begin with
the same opening, so they are not independent; pairs are. A pair has one of five outcomes: 0, 0.5,
1, 1.5 or 2 points (a pentanomial). Write N for the pairs, m for the candidate's mean score per game
and v for the variance of a pair's score per game. The likeliest normal distribution whose mean is a
hypothesis' score s has the variance ``v + (m - s)^2``. So the logarithm of the generalised
likelihood ratio of two hypotheses is::

    LLR = N / 2 * ln((v + (m - s0)^2) / (v + (m - s1)^2))

This is the alternative form in Van den Bergh, "A Practical Introduction to the GSPRT", as used by
fishtest, the chess engines' testing framework. The test ends when LLR leaves ``(ln(error / (1 -
error)), ln((1 - error) / error))``. Then either error has about the probability ``error`` (Wald,
"Sequential Tests of Statistical Hypotheses", Annals of Mathematical Statistics 16, 1945, section
3.2). That still holds with the likelihood ratio generalised (Li, Liu and Ying, Sequential Analysis
33, 2014).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

POINTS = np.asarray([0.0, 0.25, 0.5, 0.75, 1.0])  # [5] float64, score per game of a pair

_UNSEEN = 0.5  # pairs; see regularised


@dataclass(frozen=True, slots=True)
class GateRule:
    """The rule that decides a match of the gate; it keeps the rule that it began with."""

    threshold: float  # the candidate is promoted when its score is above this
    sprt_elo: tuple[float, float] | None = None  # None: no sequential test
    sprt_error: float | None = None
    draws_only: Literal["promote", "reject"] | None = None  # None: the threshold decides


class GateMatch(Protocol):
    """A match between two players, first the candidate."""

    @property
    def games(self) -> int:
        """Games when it is over; with a sequential test the most of them."""
        ...

    @property
    def rule(self) -> GateRule | None:
        """The rule; None where the match is not one of the gate."""
        ...


@dataclass(frozen=True, slots=True)
class Pair:
    """Both games of one opening, as the first-named player sees them."""

    opening: int
    scores: tuple[float, float]  # as the first player, as the second
    repeated: bool  # both games repeat, move by move, a game of an earlier pair

    @property
    def points(self) -> float:
        """Sum of the two scores, from 0 to 2."""
        return sum(self.scores)


@dataclass(frozen=True, slots=True)
class MatchStatistics:
    """Statistics of a match, and what decided it; None where no games were counted."""

    decided_by: str | None = None
    score: float | None = None  # points per game of the candidate over the counted games
    llr: float | None = None
    games_counted: int | None = None
    duplicates: int | None = None  # games left out
    pentanomial: tuple[int, ...] | None = None  # counted pairs by 0, 0.5, 1, 1.5, 2 points


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answer of ``judge``; ``verdict`` is None while the match goes on."""

    verdict: Literal["promoted", "rejected"] | None
    statistics: MatchStatistics


def judge(match: GateMatch, pairs: Sequence[Pair]) -> Judgement:
    """Judge a match by its rule.

    A sequential test is evaluated after each pair, so that its verdict depends neither on how many
    pairs were played at once nor on who played them. Games played after its end do not count. If
    all games are played before it ends, the score decides: the candidate is promoted when the score
    is above the threshold, never at it. (AlphaGo Zero requires more than 55% of 400 games: Nature
    2017, Methods, "Evaluator".) If all counted games were drawn, the rule for that decides instead.

    Args:
        match: a gate's match, with its rule.
        pairs: the complete pairs, in the order of openings.
    """
    rule = match.rule
    assert rule is not None, "a match without a rule has no verdict"
    whole = match.games // 2
    prefix = _prefix(match, pairs)
    counts = _cumulative(prefix)
    ratios = _ratios(rule, counts)
    crossed = _crossing(rule, ratios)
    decided_by, end = ("sprt", crossed + 1) if crossed is not None else ("threshold", len(prefix))
    counted = [pair for pair in prefix[:end] if not pair.repeated]
    score = sum(pair.points for pair in counted) / (2 * len(counted)) if counted else None
    verdict: Literal["promoted", "rejected"] | None = None
    if score is not None and (crossed is not None or len(prefix) == whole):
        wins = score > rule.threshold if crossed is None else bool(ratios[crossed] > 0)
        if rule.draws_only is not None and all(pair.scores == (0.5, 0.5) for pair in counted):
            decided_by, wins = "draws_only", rule.draws_only == "promote"
        verdict = "promoted" if wins else "rejected"
    statistics = MatchStatistics(
        decided_by=decided_by if verdict else None,
        score=score,
        llr=float(ratios[end - 1]) if len(ratios) else None,
        games_counted=2 * len(counted),
        duplicates=2 * (end - len(counted)),
        pentanomial=tuple(counts[end - 1].tolist()) if end else (0,) * 5,
    )
    return Judgement(verdict, statistics)


def llr_walk(match: GateMatch, pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Return the log-likelihood ratio [pairs] after each complete pair, up to the end of the test.

    Args:
        match: a gate's match, with its rule; without a sequential test there is no ratio.
        pairs: the complete pairs, in the order of openings.
    """
    if match.rule is None:
        return np.zeros(0)
    prefix = _prefix(match, pairs)
    ratios = _ratios(match.rule, _cumulative(prefix))
    crossed = _crossing(match.rule, ratios)
    return ratios if crossed is None else ratios[: crossed + 1]


def _prefix(match: GateMatch, pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs from the first opening on, up to the first incomplete one."""
    return [pair for i, pair in enumerate(pairs[: match.games // 2]) if pair.opening == i]


def _cumulative(pairs: Sequence[Pair]) -> NDArray[np.int64]:
    """Return counts [pairs, 5] of the outcomes up to each pair; repeated pairs add nothing."""
    outcomes = np.zeros((len(pairs), 5), np.int64)
    for row, pair in zip(outcomes, pairs, strict=True):
        if not pair.repeated:
            row[round(2 * pair.points)] = 1
    return np.cumsum(outcomes, axis=0)


def _ratios(rule: GateRule, counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the log-likelihood ratio [pairs] after each pair; empty without a sequential test."""
    if rule.sprt_elo is None:
        return np.zeros(0)
    return log_likelihood_ratio(regularised(counts), rule.sprt_elo)


def _crossing(rule: GateRule, ratios: NDArray[np.float64]) -> int | None:
    """Return the first pair after which the ratio is at a bound; None while it is between them."""
    if rule.sprt_error is None:
        return None
    [at_bound] = np.nonzero(np.abs(ratios) >= llr_bound(rule.sprt_error))
    return int(at_bound[0]) if len(at_bound) else None


def llr_bound(error: float) -> float:
    """Return the bound of the test: it promotes at this, and rejects at its negative."""
    return math.log((1.0 - error) / error)


def elo_score(elo: float) -> float:
    """Return points per game of a player who is ``elo`` stronger: 1 / (1 + 10^(-elo / 400))."""
    return 1.0 / (1.0 + 10.0 ** (-elo / 400.0))


def regularised(counts: NDArray[Any]) -> NDArray[np.float64]:
    """Return counts [..., 5] in which an outcome that did not occur has half a pair.

    Without that, a few equal pairs would have no variance, and LLR would be as certain as with
    thousands. With it, n pairs of 1 point each reach a bound at the n at which the exact
    multinomial ratio does, ``n * ln(1 - 2 * (s1 - 0.5))``.
    """
    return np.where(counts == 0, _UNSEEN, np.asarray(counts, np.float64))


def moments(
    counts: NDArray[Any],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return pairs N, mean score m and variance v of counts [..., 5]; each [...] float64."""
    pairs = np.asarray(np.sum(counts, axis=-1), np.float64)
    score = np.asarray(counts @ POINTS / pairs, np.float64)
    variance = np.sum(counts * (POINTS - score[..., None]) ** 2, axis=-1) / pairs
    return pairs, score, np.asarray(variance, np.float64)


def log_likelihood_ratio(counts: NDArray[Any], elo: tuple[float, float]) -> NDArray[np.float64]:
    """Return LLR [...] of the second against the first of two logistic Elos, from counts [..., 5].

    The counts are used as they are: regularise them first if some are small.
    """
    pairs, score, variance = moments(counts)
    first, second = (variance + (score - elo_score(each)) ** 2 for each in elo)
    return pairs / 2.0 * np.log(first / second)
