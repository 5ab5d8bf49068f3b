"""Rules in Python that fail: the engine reports the error, stops, and its state stays readable."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from zerofleet_core import Search, SearchConfig, SelfPlay, State, set_outside_games

from zerofleet.games.game_specs import find


class Coins:
    """Nine coins, of which a player takes one or two; raises an error on request."""

    num_actions = 2
    observation_shape = (9, 1, 1)
    max_length = 9
    num_symmetries = 1

    def __init__(self) -> None:
        self.fails: type[BaseException] | None = None

    def start(self) -> CoinsLeft:
        return CoinsLeft(self, 9, 0)

    def symmetric_point(self, point: int, symmetry: int) -> int:
        del symmetry
        return point

    symmetric_action = symmetric_point

    def action_to_string(self, action: int) -> str:
        return str(action + 1)

    def string_to_action(self, text: str) -> int | None:
        return {"1": 0, "2": 1}.get(text)


class CoinsLeft:
    def __init__(self, rules: Coins, left: int, to_play: int) -> None:
        self.rules, self.left, self.to_play = rules, left, to_play

    @property
    def is_terminal(self) -> bool:
        return self.left == 0

    @property
    def result(self) -> int:
        return 1 if self.to_play == 1 else -1

    def legal_actions(self) -> list[int]:
        return [0, 1][: self.left]

    def apply(self, action: int) -> None:
        if self.rules.fails is not None and self.left < 8:
            raise self.rules.fails("no coins")
        self.left -= action + 1
        self.to_play = 1 - self.to_play

    def copy(self) -> CoinsLeft:
        return CoinsLeft(self.rules, self.left, self.to_play)

    def packed_observation(self) -> bytes:
        return np.packbits(np.arange(9) < self.left).tobytes()


@pytest.fixture
def coins() -> Iterator[Coins]:
    """A game of this test's own; the other outside games stay available."""
    rules = Coins()
    set_outside_games(lambda name: rules if name == f"test:{id(rules)}" else None)
    yield rules
    set_outside_games(find)


def answer(rows: int) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((rows, 2), np.float32), np.zeros(rows, np.float32)


def play(engine: SelfPlay | Search) -> None:
    while True:
        engine.backup(*answer(len(engine.select())), 1)


def test_an_engine_in_which_rules_failed_goes_no_further(coins: Coins) -> None:
    engine = SelfPlay(f"test:{id(coins)}", 4, SearchConfig(num_simulations=8), 1)
    coins.fails = ValueError
    with pytest.raises(
        RuntimeError, match=r"rules failed: ValueError: no coins \(test_core_outside.py, line \d+\)"
    ):
        play(engine)
    coins.fails = None
    for _ in range(2):
        with pytest.raises(RuntimeError, match="failed in this engine"):
            engine.select()
        with pytest.raises(RuntimeError, match="failed in this engine"):
            engine.backup(*answer(4), 1)
    assert engine.statistics.simulations > 0
    for game in [*engine.take_finished(), *engine.unfinished()]:
        State(f"test:{id(coins)}", game.action.tolist())


def test_a_refused_answer_breaks_nothing(coins: Coins) -> None:
    engine = SelfPlay(f"test:{id(coins)}", 4, SearchConfig(num_simulations=8), 1)
    with pytest.raises(ValueError, match="expected 4 rows"):
        engine.backup(*answer(len(engine.select()) - 1), 1)
    engine.backup(*answer(len(engine.select())), 1)


def test_a_game_that_cannot_be_adopted_is_refused_as_any_other(coins: Coins) -> None:
    engine = SelfPlay(f"test:{id(coins)}", 1, SearchConfig(num_simulations=8), 1)
    while not engine.unfinished() or engine.unfinished()[0].plies < 4:
        engine.backup(*answer(len(engine.select())), 1)
    game = engine.unfinished()[0]
    coins.fails = KeyError
    with pytest.raises(ValueError, match="the game's rules failed"):
        SelfPlay(f"test:{id(coins)}", 1, SearchConfig(num_simulations=8), 1).adopt(game)


def test_an_interrupt_stays_an_interrupt(coins: Coins) -> None:
    search = Search(f"test:{id(coins)}", [[]], SearchConfig(num_simulations=500), 1)
    coins.fails = KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        play(search)
