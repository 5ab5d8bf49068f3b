"""Who plays whom in the rating pool, and which of its games are due."""

import pytest

from zerofleet.config import run_from_values
from zerofleet.database import RatingPlace, match_seed
from zerofleet.errors import ConfigError
from zerofleet.services.evaluator.spare_games import DueGames, Pairing, PairingQueue, pairings

ANCHORS = ["random"]


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


def test_every_so_many_th_promoted_model_is_rated() -> None:
    """The models between are nobody's opponents; what was rated stays so as others come."""
    expected = [Pairing("8", "3"), Pairing("8", "1"), Pairing("3", "1")]
    assert pairings([1, 2, 3, 5, 8], (1, 2), (), 2) == expected
    assert pairings([1, 2, 3, 5, 8, 9], (1, 2), (), 2) == expected


def test_each_pairing_has_openings_of_its_own() -> None:
    seeds = {
        match_seed(1, "rating", "8", "random"),
        match_seed(2, "rating", "8", "random"),
        match_seed(1, "rating", "8", "4"),
        match_seed(1, "rating", "9", "4"),
        match_seed(1, "gate", "8", "4"),
        match_seed(1, "trial", "8", "4"),
    }
    assert len(seeds) == 6
    assert all(0 <= seed < 2**63 for seed in seeds)


def queue(games: int) -> PairingQueue:
    return PairingQueue(
        run_from_values(
            {
                "name": "r",
                "game": {"name": "connect_four"},
                "rating": {"games": games, "opponents": [1, 2]},
            }
        )
    )


def played(due: DueGames) -> set[RatingPlace]:
    """The rows of what was due."""
    return {
        (each.pairing.player, each.pairing.opponent, opening, color)
        for each in due.pairings
        for opening, color in each.places
    }


def opponents(due: DueGames | None) -> list[str]:
    assert due is not None
    return [each.pairing.opponent for each in due.pairings]


def test_the_newest_model_meets_all_its_opponents_at_once() -> None:
    plan = queue(6)
    stored: set[RatingPlace] = set()
    seen: list[tuple[str, list[str], int, int]] = []
    while (due := plan.next([1, 2, 3], ANCHORS, stored)) is not None:
        seen.append((due.player, opponents(due), due.stored, due.games))
        assert not played(due) & stored
        stored |= played(due)
    assert seen == [
        ("3", ["2", "1", "random"], 0, 18),
        ("2", ["1", "random"], 0, 12),
        ("1", ["random"], 0, 6),
    ]
    assert len(stored) == 36


def test_long_pairings_are_played_in_parts_and_a_newer_model_comes_between() -> None:
    plan = queue(60)
    first = plan.next([1], ANCHORS, set())
    assert first is not None
    assert len(played(first)) == 24
    second = plan.next([1, 2], ANCHORS, played(first))
    assert second is not None
    assert (second.player, opponents(second)) == ("2", ["1", "random"])
    third = plan.next([1], ANCHORS, played(first))
    assert third is not None
    assert (third.stored, third.games) == (24, 60)
    assert not played(third) & played(first)


def test_what_is_stored_in_part_counts() -> None:
    plan = queue(4)
    begun = plan.next([1, 2], ANCHORS, set())
    assert begun is not None
    assert begun.pairings[0].pairing == Pairing("2", "1")
    stored = {("2", "1", 1, color) for color in (0, 1)}
    due = plan.next([1, 2], ANCHORS, stored)
    assert due is not None
    assert (due.stored, due.games) == (2, 8)
    # Complete pairings count too, though nothing of them is due.
    stored |= {("2", "1", 0, color) for color in (0, 1)}
    due = plan.next([1, 2], ANCHORS, stored)
    assert due is not None
    assert (opponents(due), due.stored, due.games) == (["random"], 4, 8)


def test_a_pairing_that_cannot_be_played_is_left_out() -> None:
    plan = queue(4)
    plan.leave_out(Pairing("2", "1"))
    due = plan.next([1, 2], ANCHORS, set())
    assert opponents(due) == ["random"]


def test_when_all_is_played_nothing_is_looked_at_until_a_player_is_new() -> None:
    plan = queue(4)
    stored: set[RatingPlace] = set()
    while (due := plan.next([1, 2], ANCHORS, stored)) is not None:
        assert plan.may_lack([1, 2], ANCHORS)
        stored |= played(due)
    assert not plan.may_lack([1, 2], ANCHORS)
    assert plan.may_lack([1, 2, 3], ANCHORS)
    assert plan.may_lack([1, 2], [*ANCHORS, "search"])


def test_rating_games_begin_at_the_positions_of_the_run_file() -> None:
    openings = ["7/7/7/7/7/3x3 o", "7/7/7/7/7/2x4 o", "7/7/7/7/7/3x3 o"]
    values = {"name": "r", "game": "connect_four", "rating": {"games": 20, "openings": openings}}
    due = PairingQueue(run_from_values(values)).next([1], ["random"], set())
    assert due is not None
    [missing] = due.pairings
    assert (missing.starts, missing.openings) == (openings[:2], [[], []])
    assert missing.places == [(0, 0), (0, 1), (1, 0), (1, 1)]
    values["rating"] = {"openings": ["7/7/7/7/7/7 x", "7/7/7/7/x6/7 o"]}
    with pytest.raises(ConfigError, match=r"rating\.openings\[1\]: .*column 1 has a disc above"):
        PairingQueue(run_from_values(values))
