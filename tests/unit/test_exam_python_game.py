"""The exam of a game in Python: its class says what perfect play is."""

from pathlib import Path
from typing import Self

import numpy as np
import pytest
from numpy.typing import NDArray

from examples.dots_and_boxes import DotsAndBoxes, best_gain
from tests.unit.test_exam_samples import KnowsTheSample
from tests.unit.test_games_class import Sticks
from zerofleet.errors import ConfigError
from zerofleet.exam import examine, has_exam, position_kinds
from zerofleet.exam.sample import random_sample
from zerofleet.games import Game, parse_actions
from zerofleet.games.conformance import check_conformance
from zerofleet.prediction import Prediction

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


class Again(Game):
    """Nine sticks; who takes three moves again. Who takes the last wins, if alone a draw."""

    num_actions = 3
    observation_shape = (12, 1, 1)
    max_length = 9

    def __init__(self) -> None:
        self.left = 9
        self.to_play = 0
        self.is_terminal = False
        self.result = 0

    def legal_actions(self) -> list[int]:
        return [0, 1, 2][: self.left]

    def apply(self, action: int) -> None:
        self.left -= action + 1
        if self.left == 0:
            self.is_terminal = True
            self.result = (1 - 2 * self.to_play) * (action > 0)
        if action < 2:
            self.to_play = 1 - self.to_play

    def copy(self) -> Self:
        twin = type(self)()
        twin.__dict__.update(self.__dict__)
        return twin

    def observation(self) -> NDArray[np.uint8]:
        planes = np.zeros((12, 1, 1), np.uint8)
        planes[: self.left] = 1
        planes[11] = self.to_play
        return planes

    def perfect_outcomes(self) -> list[int] | None:
        return [
            first * (1 if self.to_play == 0 else -1)
            for first in (value(self.after(action)) for action in self.legal_actions())
        ]

    def after(self, action: int) -> Self:
        twin = self.copy()
        twin.apply(action)
        return twin


class Late3(Again):
    """A game that the second player wins: it begins with four sticks, and none moves again."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 4

    def apply(self, action: int) -> None:
        mover = self.to_play
        super().apply(action)
        self.to_play = 1 - mover
        if self.is_terminal:
            self.result = 1 - 2 * mover


def value(game: Again) -> int:
    """The outcome of perfect play for the first player, without the code under test."""
    if game.is_terminal:
        return game.result
    best = max if game.to_play == 0 else min
    return best(value(game.after(action)) for action in game.legal_actions())


class Plays:
    """Plays by an order of actions, the best by ``sign`` first; from the observation alone."""

    def __init__(self, kind: type[Again], sign: int) -> None:
        self.kind = kind
        self.sign = sign

    def position(self, planes: NDArray[np.uint8]) -> Again:
        game = self.kind()
        game.left, game.to_play = int(planes[:11].sum()), int(planes[11])
        return game

    def logits(self, game: Again) -> list[float]:
        """A small preference for small actions decides among equals."""
        outcomes = game.perfect_outcomes() or []
        worth = [12.0 * self.sign * each - action for action, each in enumerate(outcomes)]
        return worth + [0.0] * (3 - len(worth))

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        games = [self.position(row) for row in np.unpackbits(observations, axis=1)[:, :12]]
        logits = np.array([self.logits(game) for game in games], np.float16)
        return Prediction(logits, np.zeros(len(games), np.float32), 1)


def walked(player: Plays, game: Again, colour: int, stood: bool = False) -> tuple[int, int]:
    """Lines and losses by a mistake, by plain recursion."""
    worth = 1 if colour == 0 else -1
    if game.is_terminal:
        return 1, int(stood and game.result == -worth)
    actions = game.legal_actions()
    if game.to_play == colour:
        stood = stood or value(game) * worth >= 0
        logits = player.logits(game)
        actions = [max(actions, key=lambda action: logits[action])]
    found = [walked(player, game.after(action), colour, stood) for action in actions]
    return sum(lines for lines, _ in found), sum(lost for _, lost in found)


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))  # pyright: ignore


def name(kind: str) -> str:
    return f"python:{Path(__file__).stem}:{kind}"


def test_the_example_keeps_the_contract_and_knows_its_first_value() -> None:
    assert "random games" in str(check_conformance(DOTS, games=3))
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


@pytest.mark.parametrize("kind", [Again, Late3])
@pytest.mark.parametrize("sign", [1, -1, 0])
async def test_every_line_of_a_small_game_is_played(kind: type[Again], sign: int) -> None:
    """Also where a player moves twice, and where one side loses under perfect play."""
    game, player = name(kind.__name__), Plays(kind, sign)
    assert position_kinds(game) == ("lines",)
    result = await examine(game, player, num_simulations=1, positions=1)
    expected = np.add(walked(player, kind(), 0), walked(player, kind(), 1))
    assert (result.kind, result.positions, result.errors) == ("lines", *expected)
    assert (result.errors > 0) == (sign < 1) == bool(result.wrong_answers)
    for each in result.wrong_answers:
        position = kind()
        for action in parse_actions(game, each.moves):
            position = position.after(action)
        outcomes = position.perfect_outcomes() or []
        assert outcomes[int(each.played)] == -1
        assert set(each.right) == {str(a) for a, found in enumerate(outcomes) if found >= 0}


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


def test_check_conformance_compares_perfect_play_with_the_rules() -> None:
    check_conformance(name("Take"), games=3)
    check_conformance(name("Late"), games=3)
    with pytest.raises(AssertionError, match=r"perfect_outcomes\(\) says 1 for action"):
        check_conformance(name("Wrong"), games=3)
