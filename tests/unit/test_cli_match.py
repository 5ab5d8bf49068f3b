"""The names of players on the command line, and the meaning of a trial's score."""

import pytest

from zerofleet.cli.match import stored_names
from zerofleet.errors import ConfigError
from zerofleet.match.play_match import score_interval
from zerofleet.verdict import Pair

WON, LOST, EVEN, DRAWN = (1.0, 1.0), (0.0, 0.0), (1.0, 0.0), (0.5, 0.5)


def interval(*scores: tuple[float, float]) -> tuple[float, float]:
    return score_interval([Pair(index, pair, False) for index, pair in enumerate(scores)])


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (("12", "5"), ("12", "5")),
        (("12", "12/int8"), ("12/fp32", "12/int8")),
        (("12/fp16", "random"), ("12/fp16", "random")),
        (("gnugo:10", "search"), ("gnugo:10", "search")),
    ],
)
def test_beside_a_precision_a_version_means_fp32(
    given: tuple[str, str], stored: tuple[str, str]
) -> None:
    assert stored_names(*given) == stored


@pytest.mark.parametrize("name", ["", "0", "12/int4", "gnugo:11", "best"])
def test_a_name_that_is_none_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(ConfigError, match=f"'{name}' is not a player: give a version"):
        stored_names("12", name)


@pytest.mark.parametrize(("player", "opponent"), [("12", "12"), ("12/fp32", "12")])
def test_no_player_plays_itself(player: str, opponent: str) -> None:
    with pytest.raises(ConfigError, match="cannot play against itself"):
        stored_names(player, opponent)


def test_few_pairs_leave_room_for_chance() -> None:
    low, high = interval(*[EVEN] * 20)
    assert low < 0.5 < high
    assert low + high == pytest.approx(1.0)
    few_low, few_high = interval(EVEN, EVEN)
    assert few_high - few_low > 3 * (high - low)
    assert interval(LOST)[1] > 0.5  # one pair proves nothing
    assert interval(*[LOST] * 20)[1] < 0.5


@pytest.mark.parametrize("pair", [WON, LOST, EVEN, DRAWN])
@pytest.mark.parametrize("pairs", [1, 2, 5, 100])
def test_the_score_lies_in_its_interval(pair: tuple[float, float], pairs: int) -> None:
    low, high = interval(*[pair] * pairs)
    assert 0.0 <= low <= sum(pair) / 2 <= high <= 1.0


def test_the_interval_is_that_of_independent_pairs() -> None:
    """With 20 pairs, equally often each outcome, a pair's score per game has variance 1 / 8."""
    low, high = interval(*[LOST, (0.5, 0.0), EVEN, (1.0, 0.5), WON] * 4)
    assert high - 0.5 == pytest.approx(1.96 * (1 / 8 / 20) ** 0.5, rel=1e-4)
    assert low + high == pytest.approx(1.0)
