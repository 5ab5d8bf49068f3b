"""The exam of a game in Python: its class says what perfect play is."""

from pathlib import Path

import pytest

from examples.dots_and_boxes import DotsAndBoxes, best_gain
from tests.unit.test_exam_samples import KnowsTheSample
from tests.unit.test_games_class import Sticks
from zerofleet.errors import ConfigError
from zerofleet.exam import examine, has_exam, position_kinds
from zerofleet.exam.sample import random_sample
from zerofleet.games import parse_actions
from zerofleet.games.conformance import check_game

DOTS = "python:examples.dots_and_boxes:DotsAndBoxes"


class Take(Sticks):
    def perfect_outcomes(self) -> list[int] | None:
        return [1 if (self.left - action - 1) % 3 == 0 else -1 for action in self.legal_actions()]


class Wrong(Take):
    def perfect_outcomes(self) -> list[int] | None:
        return [1 for _ in self.legal_actions()]


class TooFew(Take):
    def perfect_outcomes(self) -> list[int] | None:
        return [1]


class Halves(Take):
    def perfect_outcomes(self) -> list[int] | None:
        return [0.5 for _ in self.legal_actions()]  # pyright: ignore[reportReturnType]


class Unsolved(Take):
    def perfect_outcomes(self) -> list[int] | None:
        return None


class Late(Take):
    def perfect_outcomes(self) -> list[int] | None:
        return super().perfect_outcomes() if self.left < 6 else None


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))  # pyright: ignore


def name(kind: str) -> str:
    return f"python:{Path(__file__).stem}:{kind}"


def test_the_example_keeps_the_contract_and_knows_its_first_value() -> None:
    assert "random games" in str(check_game(DOTS, games=3))
    assert best_gain(0) == -2  # the second player gets four of the six boxes
    assert DotsAndBoxes().perfect_outcomes() == [-1] * 17


async def test_a_player_who_knows_the_sample_makes_no_mistake() -> None:
    assert position_kinds(DOTS) == ("random",)
    sample = await random_sample(DOTS, 30, seed=1)
    assert sample == await random_sample(DOTS, 30, seed=1)
    for sign, rate in ((1, 0.0), (-1, 1.0)):
        player = KnowsTheSample(sample, sign, DOTS)
        result = await examine(DOTS, player, num_simulations=2, positions=30)
        assert (result.kind, result.positions, result.error_rate) == ("random", 30, rate)
    wrong = result.wrong_answers[0]
    assert list(sample[0].actions) == parse_actions(DOTS, wrong.moves)
    assert wrong.played not in wrong.right


async def test_a_small_game_has_fewer_positions() -> None:
    sample = await random_sample(name("Take"), 50, seed=1)
    assert 3 <= len(sample) < 8
    assert all(position.allows_error for position in sample)
    late = await random_sample(name("Late"), 50, seed=1)
    assert 1 <= len(late) < len(sample)


def test_a_class_without_perfect_play_has_no_exam() -> None:
    assert not has_exam("python:examples.domineering:Domineering")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("TooFew", r"perfect_outcomes\(\) returned \[1\]: give \+1, 0 or -1 for each of the 2"),
        ("Halves", r"perfect_outcomes\(\) returned \[0.5, 0.5\]: give \+1, 0 or -1"),
        ("Unsolved", "none of 500 positions"),
        ("Wrong", "none of 500 positions"),
    ],
)
async def test_a_mistake_is_named(kind: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        await random_sample(name(kind), 5, seed=1)


def test_check_game_compares_perfect_play_with_the_rules() -> None:
    check_game(name("Take"), games=3)
    check_game(name("Late"), games=3)
    with pytest.raises(AssertionError, match=r"perfect_outcomes\(\) says 1 for action"):
        check_game(name("Wrong"), games=3)
