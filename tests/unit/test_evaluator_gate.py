"""The gate: fixed and sequential matches, draws, repeated games, and prefixes of pairs."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from services.evaluator.gate import judge
from services.evaluator.sprt import llr_bound
from zerofleet.database import MatchRow, Pair

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WON, LOST, EVEN, DRAWN = (1.0, 1.0), (0.0, 0.0), (1.0, 0.0), (0.5, 0.5)


def match(pairs: int, threshold: float = 0.5, **rule: Any) -> MatchRow:
    return MatchRow(1, "r", 2, 1, 2 * pairs, threshold, 50, 7, None, None, NOW, None, **rule)


def sprt(pairs: int, threshold: float = 0.5, **rule: Any) -> MatchRow:
    hypotheses = {"test": "sprt", "sprt_elo0": 0.0, "sprt_elo1": 35.0, "sprt_error": 0.05}
    return match(pairs, threshold, **hypotheses, **rule)


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
    standing = judge(match(10, threshold), played(scores))
    assert (standing.verdict, standing.grounds.decided_by) == (verdict, "threshold")
    assert (standing.grounds.games_counted, standing.grounds.duplicates) == (20, 0)
    assert standing.grounds.llr is None
    assert judge(match(11, threshold), played(scores)).verdict is None


@pytest.mark.parametrize(("rule", "verdict"), [("promote", "promoted"), ("reject", "rejected")])
@pytest.mark.parametrize("begin", [match, sprt])
def test_draws_alone_have_a_rule_of_their_own(begin: Any, rule: str, verdict: str) -> None:
    standing = judge(begin(40, 0.5, draws_only=rule), played([DRAWN] * 40))
    assert (standing.verdict, standing.grounds.decided_by) == (verdict, "draws_only")
    mixed = judge(begin(2, 0.5, draws_only=rule), played([DRAWN, EVEN]))
    assert (mixed.verdict, mixed.grounds.decided_by) == ("rejected", "threshold")


def test_a_repeated_pair_counts_once() -> None:
    standing = judge(match(4, 0.6), played([LOST, WON, WON, WON], repeated=[2, 3]))
    assert standing.verdict == "rejected"
    grounds = standing.grounds
    assert (grounds.score, grounds.games_counted, grounds.duplicates) == (0.5, 4, 4)
    assert grounds.pentanomial == (1, 0, 0, 0, 1)


def test_a_sequential_test_ends_at_its_bound() -> None:
    better = judge(sprt(200), played([WON, EVEN, WON] * 40))
    assert (better.verdict, better.grounds.decided_by) == ("promoted", "sprt")
    assert better.grounds.llr is not None
    assert better.grounds.games_counted is not None
    assert better.grounds.llr >= llr_bound(0.05)
    assert better.grounds.games_counted < 120
    worse = judge(sprt(200), played([LOST, EVEN, LOST] * 40))
    assert (worse.verdict, worse.grounds.decided_by) == ("rejected", "sprt")


def test_a_sequential_test_that_never_ends_is_decided_by_the_threshold() -> None:
    scores = [WON, EVEN, EVEN, EVEN, EVEN, EVEN, LOST, EVEN, (1.0, 0.5), EVEN]
    standing = judge(sprt(10), played(scores))
    assert (standing.verdict, standing.grounds.decided_by) == ("promoted", "threshold")
    assert standing.grounds.score == pytest.approx(0.525)
    assert judge(sprt(10), played(scores[:9])).verdict is None
    assert judge(sprt(10), []).verdict is None


def test_what_comes_later_changes_no_verdict() -> None:
    """Whoever judges, with however many pairs at hand, comes to the same verdict and grounds."""
    generator = random.Random(1)
    scores = [generator.choice([WON, EVEN, LOST, DRAWN, WON]) for _ in range(300)]
    final = judge(sprt(300), played(scores))
    assert final.verdict is not None
    for pairs in range(300):
        standing = judge(sprt(300), played(scores[:pairs]))
        if standing.verdict is not None:
            assert standing == final
        else:
            assert pairs < final.grounds.games_counted / 2  # pyright: ignore[reportOptionalOperand]


def test_only_complete_prefixes_count() -> None:
    """Short games are over first: what comes after a gap waits for the gap to close."""
    pairs = played([LOST] * 3 + [WON] * 60)
    standing = judge(sprt(300), [pair for pair in pairs if pair.opening != 1])
    assert (standing.verdict, standing.grounds.games_counted) == (None, 2)
