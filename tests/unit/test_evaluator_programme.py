"""Which rating games are due: the newest model's, against all its opponents, in parts."""

from services.evaluator.pairings import Pairing
from services.evaluator.programme import Due, Programme
from zerofleet.config import run_from_values
from zerofleet.database import RatingPlace

ANCHORS = ["random"]


def programme(games: int) -> Programme:
    return Programme(
        run_from_values(
            {
                "name": "r",
                "game": {"name": "connect_four"},
                "rating": {"games": games, "opponents": [1, 2]},
            }
        )
    )


def played(due: Due) -> set[RatingPlace]:
    """The rows of what was due."""
    return {
        (*bout.pairing.sides(color), opening)
        for bout in due.bouts
        for opening, color in bout.places
    }


def opponents(due: Due | None) -> list[str]:
    assert due is not None
    return [bout.pairing.opponent for bout in due.bouts]


def test_the_newest_model_meets_all_its_opponents_at_once() -> None:
    plan = programme(6)
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
    plan = programme(60)
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
    plan = programme(4)
    begun = plan.next([1, 2], ANCHORS, set())
    assert begun is not None
    [against_one, _] = begun.bouts
    stored = {(*against_one.pairing.sides(color), 1) for color in (0, 1)}
    due = plan.next([1, 2], ANCHORS, stored)
    assert due is not None
    assert (due.stored, due.games) == (2, 8)
    # Complete pairings count too, though nothing of them is due.
    stored |= {(*against_one.pairing.sides(color), 0) for color in (0, 1)}
    due = plan.next([1, 2], ANCHORS, stored)
    assert due is not None
    assert (opponents(due), due.stored, due.games) == (["random"], 4, 8)


def test_who_cannot_play_is_left_out() -> None:
    plan = programme(4)
    plan.leave_out(Pairing("2", "1"))
    due = plan.next([1, 2], ANCHORS, set())
    assert opponents(due) == ["random"]


def test_a_complete_programme_is_not_looked_at_again_until_somebody_is_new() -> None:
    plan = programme(4)
    stored: set[RatingPlace] = set()
    while (due := plan.next([1, 2], ANCHORS, stored)) is not None:
        assert plan.may_lack([1, 2], ANCHORS)
        stored |= played(due)
    assert not plan.may_lack([1, 2], ANCHORS)
    assert plan.may_lack([1, 2, 3], ANCHORS)
    assert plan.may_lack([1, 2], [*ANCHORS, "search"])
