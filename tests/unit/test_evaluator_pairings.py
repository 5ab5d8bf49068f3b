"""Who plays whom in the rating pool."""

import pytest

from services.evaluator.anchors import check_anchors, why_absent
from services.evaluator.pairings import Pairing, pairings
from zerofleet.config import run_from_values
from zerofleet.errors import ConfigError


def test_each_promoted_model_meets_earlier_ones_and_the_anchors_newest_first() -> None:
    found = pairings([1, 3, 4, 8], (1, 3), ("random", "search"))
    assert found[:4] == [
        Pairing("8", "4"),
        Pairing("8", "1"),
        Pairing("8", "random"),
        Pairing("8", "search"),
    ]
    assert found[-2:] == [Pairing("1", "random"), Pairing("1", "search")]
    assert len(found) == len(set(found)) == 4 * 2 + 3 + 1


def test_going_back_to_a_model_makes_no_other_pairing() -> None:
    assert pairings([1, 2, 1, 5], (1,), ()) == [Pairing("5", "2"), Pairing("2", "1")]
    assert pairings([], (1, 5), ("random",)) == []


def test_each_pairing_has_openings_of_its_own() -> None:
    pairing = Pairing("8", "random")
    seeds = {pairing.seed(1), pairing.seed(2), Pairing("8", "4").seed(1), Pairing("9", "4").seed(1)}
    assert len(seeds) == 4
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert pairing.sides(0) == ("8", "random")
    assert pairing.sides(1) == ("random", "8")
    assert (pairing.versions(0), pairing.versions(1)) == ((8, 0), (0, 8))


@pytest.mark.parametrize("name", ["", "rando", "gnugo", "gnugo:0", "gnugo:11", "gnugo:1x"])
def test_an_anchor_that_nobody_knows_is_one_clear_line(name: str) -> None:
    values = {"name": "r", "game": "tic_tac_toe"}
    check_anchors(run_from_values({**values, "rating": {"anchors": ["gnugo:10", "random"]}}))
    with pytest.raises(ConfigError, match=f"rating.anchors has '{name}': give random, search"):
        check_anchors(run_from_values({**values, "rating": {"anchors": [name]}}))


def test_anchors_that_cannot_play_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    assert why_absent("random", "tic_tac_toe") is None
    assert why_absent("gnugo:1", "tic_tac_toe") == "GNU Go does not play tic_tac_toe"
    monkeypatch.setenv("PATH", "")
    assert why_absent("gnugo:1", "go(size=9)") == "the program gnugo is not on PATH"
