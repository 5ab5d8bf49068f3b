"""Which variant plays next, what its games say, and that nobody else answers for it."""

import numpy as np
import pytest
from numpy.typing import NDArray

from services.evaluator.exact import ExactPredictor
from services.evaluator.variants import VariantStanding, due_version, variant_standing
from zerofleet.database import MatchScore, Pair
from zerofleet.errors import IncompatibleModelError, ModelNotFoundError, OverloadedError
from zerofleet.prediction import Prediction

CHAIN = list(range(1, 31))
WON, LOST, EVEN, DRAWN = (1.0, 1.0), (0.0, 0.0), (1.0, 0.0), (0.5, 0.5)


@pytest.mark.parametrize(
    ("promotions", "without", "judged", "due"),
    [
        (1, [], None, 1),
        (4, [1, 2], None, 3),
        (10, [], None, 1),  # it has begun: others that come meanwhile change nothing
        (11, [], None, 11),  # but of two that are due, only the last is played
        (10, [], 1, None),
        (11, [], 1, 11),
        (12, [11], 1, 12),
        (13, [], 1, 11),
        (21, [], 1, 21),
        (21, [11], 1, 12),
        (22, [11], 1, 22),
        (30, [], 30, None),
        (5, [1, 2, 3, 4, 5], None, None),
    ],
)
def test_a_match_is_due_every_so_many_promotions(
    promotions: int, without: list[int], judged: int | None, due: int | None
) -> None:
    accepted = set(CHAIN) - set(without)
    assert due_version(CHAIN[:promotions], accepted, judged, 10) == due
    assert due_version(CHAIN[:promotions], accepted, judged, 0) is None


def test_going_back_to_a_version_is_no_new_promotion() -> None:
    assert due_version([1, 2, 1, 2, 1], {1, 2}, 1, 3) is None
    assert due_version([1, 2, 1, 3, 4], {1, 2, 3, 4}, 1, 3) == 4


def standing(*scores: tuple[float, float], repeated: tuple[int, ...] = ()) -> VariantStanding:
    return variant_standing([Pair(i, pair, i in repeated) for i, pair in enumerate(scores)])


def test_equal_play_is_accepted_and_few_games_leave_room_for_chance() -> None:
    even, short = standing(*[EVEN] * 20), standing(EVEN, EVEN)
    for each in (even, short):
        assert each.accepted
        assert each.low < each.score.score == 0.5 < each.high
        assert each.low + each.high == pytest.approx(1.0)
    assert short.high - short.low > 3 * (even.high - even.low)


def test_weaker_beyond_chance_is_refused() -> None:
    assert not standing(*[LOST] * 20).accepted
    assert not standing(*[LOST] * 8, *[EVEN] * 12).accepted
    assert standing(*[LOST] * 3, *[EVEN] * 15, *[WON] * 2).accepted
    assert standing(LOST).accepted  # one pair proves nothing
    assert standing(*[WON] * 20).accepted


@pytest.mark.parametrize("pair", [WON, LOST, EVEN, DRAWN])
@pytest.mark.parametrize("pairs", [1, 2, 5, 100])
def test_the_score_lies_in_its_interval(pair: tuple[float, float], pairs: int) -> None:
    each = standing(*[pair] * pairs)
    assert 0.0 <= each.low <= each.score.score <= each.high <= 1.0


def test_the_interval_is_that_of_independent_pairs() -> None:
    """20 pairs of all five outcomes alike: the variance of a pair's score per game is 1 / 8."""
    outcomes = [LOST, (0.5, 0.0), EVEN, (1.0, 0.5), WON]
    each = standing(*outcomes * 4)
    assert each.score == MatchScore(16, 8, 16)
    assert each.high - 0.5 == pytest.approx(1.96 * (1 / 8 / 20) ** 0.5, rel=1e-4)


def test_a_repeated_pair_does_not_count() -> None:
    assert standing(LOST, LOST, EVEN, repeated=(1,)).score == MatchScore(1, 0, 3)


def test_the_sentence() -> None:
    each = VariantStanding(MatchScore(18, 3, 19), 0.3421, 0.6329)
    assert each.sentence("int8", 12) == (
        "int8 of version 12 against fp32: 19.5 of 40, 95% 0.34 to 0.63, accepted"
    )
    assert VariantStanding(MatchScore(0, 0, 4), 0.0, 0.4).sentence("fp16", 3).endswith("refused")


class Server:
    """Answers in a precision of its own, or not at all."""

    def __init__(self, precision: str, error: Exception | None = None) -> None:
        self._precision = precision
        self._error = error

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        if self._error is not None:
            raise self._error
        value = np.zeros(len(observations), np.float32)
        return Prediction(value[:, np.newaxis], value, 1, self._precision)


async def test_no_other_precision_answers() -> None:
    rows = np.zeros((2, 1), np.uint8)
    answer = await ExactPredictor(Server("int8"), "int8").predict(rows)
    assert answer.precision == "int8"
    with pytest.raises(IncompatibleModelError, match="asked in int8, inference answered in fp32"):
        await ExactPredictor(Server("fp32"), "int8").predict(rows)
    with pytest.raises(IncompatibleModelError, match="a precision that it does not name"):
        await ExactPredictor(Server(""), "fp32").predict(rows)
    absent = Server("int8", ModelNotFoundError("version 1 has no accepted variant int8"))
    with pytest.raises(IncompatibleModelError, match="no accepted variant"):
        await ExactPredictor(absent, "int8").predict(rows)
    with pytest.raises(OverloadedError):
        await ExactPredictor(Server("int8", OverloadedError("full")), "int8").predict(rows)
