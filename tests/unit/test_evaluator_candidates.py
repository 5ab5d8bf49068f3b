"""Which model is judged next."""

import pytest

from zerofleet.services.evaluator.evaluator import Work, choose


@pytest.mark.parametrize(
    ("versions", "judged", "work"),
    [
        ([1], [1], None),
        ([1, 2], [1], Work(2)),
        ([4, 2, 1, 3], [1], Work(4, (2, 3))),
        ([1, 2, 3, 4], [1, 3], Work(4)),
        ([1, 2, 3], [1, 3], None),
    ],
)
def test_the_newest_is_played(versions: list[int], judged: list[int], work: Work | None) -> None:
    assert choose(versions, judged, is_first=False, gate=True) == work


def test_the_first_model_comes_first_even_when_others_wait() -> None:
    assert choose([2, 1, 3], [], is_first=True, gate=True) == Work(1)
    assert choose([], [], is_first=True, gate=True) is None


def test_without_a_gate_each_has_its_turn() -> None:
    assert choose([1, 2, 3], [1], is_first=False, gate=False) == Work(2)


def test_a_match_that_has_begun_is_finished_first() -> None:
    assert choose([1, 2, 3, 4], [1], is_first=False, gate=True, begun=3) == Work(3, (2,))
    assert choose([1, 2, 3, 4], [1, 3], is_first=False, gate=True, begun=3) == Work(4)
