"""Searches that are served together: bounded in number and in what their trees hold."""

import pytest

from zerofleet.errors import OverloadedError
from zerofleet.services.inference.model_player import Admission


def test_the_count_is_bounded() -> None:
    admission = Admission(most_searches=2, most_edges=1_000)
    with admission.admitted(1, 1), admission.admitted(1, 1):
        assert admission.searches == 2
        with pytest.raises(OverloadedError, match="2 searches are running, which is the limit"):
            admission.admitted(1, 1).__enter__()
    assert admission.searches == 0


def test_the_edges_are_bounded_together() -> None:
    admission = Admission(most_edges=1_000)
    with admission.admitted(50, 10):
        with pytest.raises(OverloadedError, match=r"60 simulations: .* 500 of at most 1,000"):
            admission.admitted(60, 10).__enter__()
        with admission.admitted(50, 10):
            assert admission.searches == 2
    with admission.admitted(100, 10):
        assert admission.searches == 1


def test_one_search_alone_may_always_run() -> None:
    admission = Admission(most_edges=1_000)
    full = "50,000 of at most 1,000"
    with admission.admitted(5_000, 10), pytest.raises(OverloadedError, match=full):
        admission.admitted(1, 1).__enter__()


def test_a_search_that_fails_leaves_its_room() -> None:
    admission = Admission(most_searches=1)
    with pytest.raises(ValueError, match="failed"), admission.admitted(1, 1):
        raise ValueError("failed")
    with admission.admitted(1, 1):
        assert admission.searches == 1


def test_a_search_may_grow_to_half_of_the_memory() -> None:
    admission = Admission(most_edges=1_000)
    with admission.admitted(10, 10) as first, admission.admitted(10, 10) as second:
        assert admission.resize(first, 400)
        assert not admission.resize(second, 101)
        assert (first.edges, second.edges) == (400, 100)
        assert admission.resize(first, 300)
        assert admission.resize(second, 200)
        with pytest.raises(OverloadedError, match="500 of at most 1,000"):
            admission.admitted(51, 10).__enter__()
        with admission.admitted(50, 10):
            assert admission.searches == 3
    with admission.admitted(100, 10):
        assert admission.searches == 1


def test_the_largest_board_leaves_room_for_others() -> None:
    """Five whole searches of 19x19, and not 64, may run by the limits in use."""
    admission = Admission()
    running = [admission.admitted(20_000, 362) for _ in range(5)]
    for each in running:
        each.__enter__()
    with pytest.raises(OverloadedError):
        admission.admitted(20_000, 362).__enter__()
