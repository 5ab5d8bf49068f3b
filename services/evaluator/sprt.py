"""The sequential test of a match: pairs of games, counted by what the candidate took from each.

Both games of a pair begin with the same opening, so they are not independent; pairs are. A pair is
one of five outcomes: 0, 0.5, 1, 1.5 or 2 points (a pentanomial). Write N for the pairs, m for the
candidate's mean score per game and v for the variance of a pair's score per game. The likeliest
normal distribution whose mean is a hypothesis' score s has the variance ``v + (m - s)^2``, so the
logarithm of the generalised likelihood ratio of two hypotheses is::

    LLR = N / 2 * ln((v + (m - s0)^2) / (v + (m - s1)^2))

(Van den Bergh, "A Practical Introduction to the GSPRT", the alternative form, as the chess
engines' testing framework fishtest has it.) The test ends when LLR leaves
``(ln(error / (1 - error)), ln((1 - error) / error))``: then either error has about the probability
``error`` (Wald, "Sequential Tests of Statistical Hypotheses", Annals of Mathematical Statistics 16,
1945, section 3.2), which stays so with the likelihood ratio generalised (Li, Liu and Ying,
Sequential Analysis 33, 2014).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

POINTS = np.asarray([0.0, 0.25, 0.5, 0.75, 1.0])  # [5] float64, a pair's score per game
ELO_PER_SIGMA = 800.0 / math.log(10.0)  # normalized Elo of one standard deviation per game

_UNSEEN = 0.5  # pairs; see regularised


def llr_bound(error: float) -> float:
    """Where the test ends: at this it promotes, at its negative it rejects."""
    return math.log((1.0 - error) / error)


def elo_score(elo: float) -> float:
    """Points per game of a player who is ``elo`` stronger: 1 / (1 + 10^(-elo / 400))."""
    return 1.0 / (1.0 + 10.0 ** (-elo / 400.0))


def logistic_elo(score: float) -> float:
    """The Elo whose ``elo_score`` is ``score``, strictly between 0 and 1."""
    return -400.0 * math.log10(1.0 / score - 1.0)


def regularised(counts: NDArray[Any]) -> NDArray[np.float64]:
    """Counts [..., 5] in which an outcome that was not seen has half a pair.

    Without that a few pairs that all end alike have no variance, and LLR is as sure of them as of
    thousands. With it, n pairs of 1 point each reach a bound at the n at which the exact
    multinomial ratio does, ``n * ln(1 - 2 * (s1 - 0.5))``.
    """
    return np.where(counts == 0, _UNSEEN, np.asarray(counts, np.float64))


def moments(
    counts: NDArray[Any],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Pairs N, mean score m and variance v of counts [..., 5]; each [...] float64."""
    pairs = np.asarray(np.sum(counts, axis=-1), np.float64)
    score = np.asarray(counts @ POINTS / pairs, np.float64)
    variance = np.sum(counts * (POINTS - score[..., None]) ** 2, axis=-1) / pairs
    return pairs, score, np.asarray(variance, np.float64)


def log_likelihood_ratio(counts: NDArray[Any], elo: tuple[float, float]) -> NDArray[np.float64]:
    """LLR [...] of the second against the first of two logistic Elos, from counts [..., 5].

    The counts are taken as they are: regularise them first where some are small.
    """
    pairs, score, variance = moments(counts)
    first, second = (variance + (score - elo_score(each)) ** 2 for each in elo)
    return pairs / 2.0 * np.log(first / second)


def normalized_elo(counts: NDArray[Any]) -> NDArray[np.float64]:
    """The score's distance from one half in standard deviations per game, scaled [...].

    Van den Bergh, "Normalized Elo": ``t = (m - 0.5) / sqrt(2 v)``, times 800 / ln 10.
    """
    _, score, variance = moments(counts)
    return (score - 0.5) / np.sqrt(2.0 * variance) * ELO_PER_SIGMA


def normalized_log_likelihood_ratio(
    counts: NDArray[Any], normalized: tuple[float, float]
) -> NDArray[np.float64]:
    """LLR [...] of two normalized Elos: ``N ln((1 + (t - t0)^2) / (1 + (t - t1)^2))``."""
    pairs, _, _ = moments(counts)
    distance = normalized_elo(counts) / ELO_PER_SIGMA
    first, second = (1.0 + (distance - each / ELO_PER_SIGMA) ** 2 for each in normalized)
    return pairs * np.log(first / second)
