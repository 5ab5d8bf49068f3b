"""Which pairs begin when: in order, so many at once, not far ahead, and all of them in the end."""

import random

import pytest

from services.evaluator.roster import Place, Roster


def whole(openings: list[int]) -> list[Place]:
    """Both games of each opening."""
    return [(opening, color) for opening in openings for color in (0, 1)]


def test_pairs_begin_in_their_order_as_seats_become_free() -> None:
    roster = Roster(whole(list(range(6))), at_once=4)
    assert roster.begin() == [0, 1, 2, 3]
    roster.hand_in([(3, 0)])
    assert roster.begin() == []  # half a pair's seats
    roster.hand_in([(2, 1)])
    assert roster.begin() == [4]
    roster.hand_in(whole([0, 1]))
    assert roster.begin() == [5]
    roster.hand_in([*whole([4, 5]), (2, 0), (3, 1)])
    assert (roster.in_play, roster.missing) == (False, set())


def test_few_free_seats_wait_for_more() -> None:
    roster = Roster(whole(list(range(40))), at_once=16)
    assert roster.begin() == list(range(16))
    roster.hand_in(whole([7]))
    assert roster.begin() == []
    roster.hand_in(whole([9]))
    assert roster.begin() == [16, 17]


def test_what_begins_stays_near_the_first_incomplete_pair() -> None:
    """The last pair before the bound begins alone, though two seats at least are asked for."""
    roster = Roster(whole(list(range(64))), at_once=16, ahead=17)
    roster.begin()
    roster.hand_in(whole([1, 2, 3]))
    assert roster.begin() == []  # only opening 16 is near enough: fewer than are worth it
    roster.hand_in([(0, 1)])
    assert roster.begin() == []
    roster.hand_in([(0, 0)])
    assert roster.begin() == [16, 17, 18, 19]  # the first incomplete one is 4


def test_a_pair_of_which_one_game_is_stored_is_played_whole() -> None:
    roster = Roster([(1, 0), *whole([4, 5])], at_once=2, ahead=2)
    assert roster.begin() == [1]  # 4 and 5 are too far, and it is alone
    roster.hand_in([(1, 1)])
    assert (roster.missing, roster.begin()) == ({(1, 0), *whole([4, 5])}, [])
    roster.hand_in([(1, 0)])
    assert roster.begin() == [4, 5]


@pytest.mark.parametrize("ahead", [None, 1, 5, 12])
@pytest.mark.parametrize("at_once", [1, 2, 3, 9, 30])
def test_whatever_ends_first_everything_is_played_within_the_bounds(
    at_once: int, ahead: int | None
) -> None:
    draw = random.Random(f"{at_once} {ahead}")
    places = whole(list(range(40)))
    missing = draw.sample(places, 60)
    openings = sorted({opening for opening, _ in missing})
    roster = Roster(missing, at_once, ahead)
    live: list[Place] = []
    begun: list[int] = []
    while new := roster.begin() or ([] if live else None):
        begun += new
        live += whole(new)
        assert len(live) <= 2 * at_once
        if ahead is not None:
            assert max(begun) < min(roster.missing)[0] + max(ahead, 1)
        while live:
            place = live.pop(draw.randrange(len(live)))
            roster.hand_in([place])
            more = roster.begin()
            begun += more
            live += whole(more)
            assert len(live) <= 2 * at_once
    assert begun == openings
    assert not roster.in_play
    assert roster.missing == set()
