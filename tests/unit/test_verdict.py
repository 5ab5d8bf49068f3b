"""The verdict of a gate match: its rules, prefixes of pairs, and the sequential test's figures."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from zerofleet.verdict import (
    GateRule,
    Pair,
    elo_score,
    judge,
    llr_bound,
    llr_walk,
    log_likelihood_ratio,
    moments,
    regularised,
)

WON, LOST, EVEN, DRAWN = (1.0, 1.0), (0.0, 0.0), (1.0, 0.0), (0.5, 0.5)


@dataclass(frozen=True)
class Match:
    games: int
    rule: GateRule


def match(pairs: int, threshold: float = 0.5, **rule: Any) -> Match:
    return Match(2 * pairs, GateRule(threshold, **rule))


def sprt(pairs: int, threshold: float = 0.5, **rule: Any) -> Match:
    return match(pairs, threshold, sprt_elo=(0.0, 35.0), sprt_error=0.05, **rule)


def played(scores: Sequence[tuple[float, float]], repeated: Sequence[int] = ()) -> list[Pair]:
    return [Pair(index, pair, index in repeated) for index, pair in enumerate(scores)]


@pytest.mark.parametrize(
    ("scores", "threshold", "verdict"),
    [
        ([WON] * 6 + [EVEN] * 4, 0.79, "promoted"),
        ([WON] * 6 + [EVEN] * 4, 0.8, "rejected"),
        ([WON] + [EVEN] * 9, 0.55, "rejected"),
        ([WON, (1.0, 0.5)] + [EVEN] * 8, 0.55, "promoted"),
        ([LOST] * 10, 0.0, "rejected"),
        ([WON] * 10, 1.0, "rejected"),
        ([DRAWN] * 10, 0.49, "promoted"),
        ([DRAWN] * 10, 0.5, "rejected"),
    ],
)
def test_a_fixed_match_asks_for_more_than_the_threshold(
    scores: list[tuple[float, float]], threshold: float, verdict: str
) -> None:
    judgement = judge(match(10, threshold), played(scores))
    assert (judgement.verdict, judgement.statistics.decided_by) == (verdict, "threshold")
    assert (judgement.statistics.games_counted, judgement.statistics.duplicates) == (20, 0)
    assert judgement.statistics.llr is None
    assert judge(match(11, threshold), played(scores)).verdict is None


@pytest.mark.parametrize(("rule", "verdict"), [("promote", "promoted"), ("reject", "rejected")])
@pytest.mark.parametrize("begin", [match, sprt])
def test_draws_alone_have_a_rule_of_their_own(begin: Any, rule: str, verdict: str) -> None:
    judgement = judge(begin(40, 0.5, draws_only=rule), played([DRAWN] * 40))
    assert (judgement.verdict, judgement.statistics.decided_by) == (verdict, "draws_only")
    mixed = judge(begin(2, 0.5, draws_only=rule), played([DRAWN, EVEN]))
    assert (mixed.verdict, mixed.statistics.decided_by) == ("rejected", "threshold")


def test_a_repeated_pair_counts_once() -> None:
    judgement = judge(match(4, 0.6), played([LOST, WON, WON, WON], repeated=[2, 3]))
    assert judgement.verdict == "rejected"
    statistics = judgement.statistics
    assert (statistics.score, statistics.games_counted, statistics.duplicates) == (0.5, 4, 4)
    assert statistics.pentanomial == (1, 0, 0, 0, 1)


def test_a_sequential_test_ends_at_its_bound() -> None:
    better = judge(sprt(200), played([WON, EVEN, WON] * 40))
    assert (better.verdict, better.statistics.decided_by) == ("promoted", "sprt")
    assert better.statistics.llr is not None
    assert better.statistics.games_counted is not None
    assert better.statistics.llr >= llr_bound(0.05)
    assert better.statistics.games_counted < 120
    walk = llr_walk(sprt(200), played([WON, EVEN, WON] * 40))
    assert walk[-1] == better.statistics.llr
    assert (walk[:-1] < llr_bound(0.05)).all()
    assert len(walk) == better.statistics.games_counted / 2
    assert len(llr_walk(match(200), played([WON] * 9))) == 0
    worse = judge(sprt(200), played([LOST, EVEN, LOST] * 40))
    assert (worse.verdict, worse.statistics.decided_by) == ("rejected", "sprt")


def test_a_sequential_test_that_never_ends_is_decided_by_the_threshold() -> None:
    scores = [WON, EVEN, EVEN, EVEN, EVEN, EVEN, LOST, EVEN, (1.0, 0.5), EVEN]
    judgement = judge(sprt(10), played(scores))
    assert (judgement.verdict, judgement.statistics.decided_by) == ("promoted", "threshold")
    assert judgement.statistics.score == pytest.approx(0.525)
    assert judge(sprt(10), played(scores[:9])).verdict is None
    assert judge(sprt(10), []).verdict is None


def test_what_comes_later_changes_no_verdict() -> None:
    """Whoever judges, with however many pairs at hand, comes to the same verdict and statistics."""
    generator = random.Random(1)
    scores = [generator.choice([WON, EVEN, LOST, DRAWN, WON]) for _ in range(300)]
    final = judge(sprt(300), played(scores))
    assert final.verdict is not None
    for pairs in range(300):
        judgement = judge(sprt(300), played(scores[:pairs]))
        if judgement.verdict is not None:
            assert judgement == final
        else:
            assert pairs < final.statistics.games_counted / 2  # pyright: ignore[reportOptionalOperand]


def test_only_complete_prefixes_count() -> None:
    """Short games are over first: what comes after a gap waits for the gap to close."""
    pairs = played([LOST] * 3 + [WON] * 60)
    judgement = judge(sprt(300), [pair for pair in pairs if pair.opening != 1])
    assert (judgement.verdict, judgement.statistics.games_counted) == (None, 2)


ELO_PER_SIGMA = 800.0 / math.log(10.0)  # normalized Elo of one standard deviation per game
PUBLISHED = np.asarray([13, 37, 50, 25, 3])


def logistic_elo(score: float) -> float:
    """The Elo whose ``elo_score`` is ``score``, strictly between 0 and 1."""
    return -400.0 * math.log10(1.0 / score - 1.0)


def normalized_elo(counts: np.ndarray) -> np.ndarray:
    """The score's distance from one half in standard deviations per game, scaled [...].

    Van den Bergh, "Normalized Elo": ``t = (m - 0.5) / sqrt(2 v)``, times 800 / ln 10.
    """
    _, score, variance = moments(counts)
    return (score - 0.5) / np.sqrt(2.0 * variance) * ELO_PER_SIGMA


def normalized_log_likelihood_ratio(
    counts: np.ndarray, normalized: tuple[float, float]
) -> np.ndarray:
    """LLR [...] of two normalized Elos: ``N ln((1 + (t - t0)^2) / (1 + (t - t1)^2))``."""
    pairs, _, _ = moments(counts)
    distance = normalized_elo(counts) / ELO_PER_SIGMA
    first, second = (1.0 + (distance - each / ELO_PER_SIGMA) ** 2 for each in normalized)
    return pairs * np.log(first / second)


def test_a_published_match() -> None:
    pairs, score, variance = moments(PUBLISHED)
    assert 2 * pairs == 256
    assert score == pytest.approx(0.43750, abs=5e-6)
    assert 2 * variance == pytest.approx(0.11523, abs=5e-6)
    assert normalized_elo(PUBLISHED) == pytest.approx(-63.97, abs=5e-3)
    assert logistic_elo(float(score)) == pytest.approx(-43.658, abs=5e-4)
    ratio = normalized_log_likelihood_ratio(PUBLISHED, (0.0, 4.0))
    assert ratio == pytest.approx(-0.54012, abs=5e-6)
    assert llr_bound(0.05) == pytest.approx(2.9444, abs=5e-5)


def test_elo_and_score_are_inverse() -> None:
    assert elo_score(0.0) == 0.5
    assert elo_score(35.0) == pytest.approx(0.55, abs=5e-4)
    for elo in (-200.0, 0.0, 35.0):
        assert logistic_elo(elo_score(elo)) == pytest.approx(elo)


def test_the_ratio_changes_sign_with_the_sides() -> None:
    ratio = log_likelihood_ratio(PUBLISHED, (0.0, 35.0))
    assert ratio < 0
    assert log_likelihood_ratio(PUBLISHED[::-1], (0.0, -35.0)) == pytest.approx(ratio)
    assert log_likelihood_ratio(PUBLISHED, (35.0, 0.0)) == pytest.approx(-ratio)


def test_many_counts_at_once() -> None:
    both = np.stack([PUBLISHED, PUBLISHED[::-1]])
    ratios = log_likelihood_ratio(both, (0.0, 35.0))
    assert ratios.shape == (2,)
    assert ratios[0] == log_likelihood_ratio(PUBLISHED, (0.0, 35.0))


def test_pairs_that_end_alike_are_no_certainty() -> None:
    """Pairs of a win and a loss each: the ratio reaches its bound when the exact one does."""
    equal = np.asarray([0, 0, 1, 0, 0])
    for pairs in (10, 20, 28):
        exact = pairs * math.log(1 - 2 * (elo_score(35.0) - 0.5))
        ratio = log_likelihood_ratio(regularised(pairs * equal), (0.0, 35.0))
        assert ratio == pytest.approx(exact, abs=0.55)
    assert exact == pytest.approx(-llr_bound(0.05), rel=0.01)
    sweep = np.asarray([0, 0, 0, 0, 2])
    assert log_likelihood_ratio(regularised(sweep), (0.0, 35.0)) < llr_bound(0.05)


def _pair_distribution(elo: float, draws: float, swing: float) -> np.ndarray:
    """Probabilities of the five outcomes; the opening favours one side by ``swing`` of score."""
    pair = np.zeros(5)
    for favour in (swing, -swing):
        games = []
        for shift in (favour, -favour):
            win = elo_score(elo) + shift - draws / 2
            games.append(np.asarray([1 - win - draws, draws, win]))
        pair += np.convolve(*games) / 2
    return pair


@pytest.mark.parametrize(("draws", "swing"), [(0.0, 0.0), (0.1, 0.3), (0.5, 0.1)])
def test_wrong_verdicts_are_about_as_rare_as_promised(draws: float, swing: float) -> None:
    """Two thousand matches under each hypothesis, looked at after every pair."""
    generator = np.random.default_rng(1)
    matches, most_pairs, bound = 2_000, 3_000, llr_bound(0.05)
    for truth, wrong in ((0.0, 1), (35.0, -1)):
        probabilities = _pair_distribution(truth, draws, swing)
        counts = np.zeros((matches, 5))
        open_ = np.ones(matches, np.bool_)
        verdicts = np.zeros(matches, np.int8)
        for _ in range(most_pairs):
            drawn = generator.choice(5, size=int(open_.sum()), p=probabilities)
            counts[np.flatnonzero(open_), drawn] += 1
            ratios = log_likelihood_ratio(regularised(counts[open_]), (0.0, 35.0))
            verdicts[open_] = np.where(ratios >= bound, 1, np.where(ratios <= -bound, -1, 0))
            open_ = verdicts == 0
            if not open_.any():
                break
        assert not open_.any()
        assert 0.02 < (verdicts == wrong).mean() < 0.065
