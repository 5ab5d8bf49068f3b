"""Start positions of games written in Python: two optional methods, checked like the others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from zerofleet_core import Search, SearchConfig

from tests.unit.test_games_class import Sticks
from zerofleet import games
from zerofleet.errors import ConfigError
from zerofleet.games import State
from zerofleet.games.conformance import check_conformance


class SetUpSticks(Sticks):
    """A position is the number of sticks and the player to move: "4 second"."""

    @classmethod
    def set_up(cls, text: str) -> SetUpSticks:
        left, _, player = text.partition(" ")
        if not left.isdecimal() or int(left) > 7:
            raise ValueError(f"there are 0 to 7 sticks, not '{left}'")
        game = cls()
        game.left = int(left)
        game.to_play = ("first", "second").index(player)
        return game

    def setup_text(self) -> str:
        return f"{self.left} {('first', 'second')[self.to_play]}"


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Callable[[type], str]:
    """Puts a class into a module of its own; the name of its game."""

    def name(game: type) -> str:
        module = ModuleType("games_with_positions")
        setattr(module, game.__name__, game)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return f"python:{module.__name__}:{game.__name__}"

    return name


def test_a_class_may_set_positions_up(named: Callable[[type], str]) -> None:
    name = named(SetUpSticks)
    assert games.spec(name).sets_up_positions
    assert State(name, [1, 1]).setup_text() == "3 first"
    state = State(name, [0], "4 second")
    assert (state.to_play, state.ply, state.setup_text(), state.start) == (
        0,
        1,
        "3 first",
        "4 second",
    )
    with pytest.raises(ValueError, match=r"^there are 0 to 7 sticks, not '9'$"):
        State(name, [], "9 first")
    assert check_conformance(name).game == name
    search = Search(name, [[]], SearchConfig(num_simulations=200), 1, starts=["4 second"])
    while rows := len(search.select()):
        search.backup(np.zeros((rows, 2), np.float32), np.zeros(rows, np.float32), 1)
    assert search.results()[0].best_action == 0


def test_a_class_without_them_has_no_positions(named: Callable[[type], str]) -> None:
    name = named(Sticks)
    assert not games.spec(name).sets_up_positions
    for call in (lambda: State(name).setup_text(), lambda: State(name, [], "3 first")):
        with pytest.raises(ValueError, match="Sticks has no notation for positions"):
            call()


def test_one_needs_the_other(named: Callable[[type], str]) -> None:
    class OnlyWrites(Sticks):
        def setup_text(self) -> str:
            return "7 first"

    class OnlyReads(Sticks):
        @classmethod
        def set_up(cls, text: str) -> OnlyReads:
            return cls()

    class NoClassMethod(SetUpSticks):
        def set_up(self, text: str) -> Any:  # type: ignore[override]
            return self

    with pytest.raises(ConfigError, match=r"the class has setup_text\(\), but no set_up\(\)"):
        games.spec(named(OnlyWrites))
    with pytest.raises(ConfigError, match=r"the class has set_up\(\), but no setup_text\(\)"):
        games.spec(named(OnlyReads))
    with pytest.raises(ConfigError, match=r"set_up\(\) is a method of a position"):
        games.spec(named(NoClassMethod))


def test_wrong_answers_are_described(named: Callable[[type], str]) -> None:
    class ReadsNothing(SetUpSticks):
        @classmethod
        def set_up(cls, text: str) -> Any:
            return None

    class WritesTwoLines(SetUpSticks):
        def setup_text(self) -> str:
            return "7\nfirst"

    class ForgetsThePlayer(SetUpSticks):
        @classmethod
        def set_up(cls, text: str) -> SetUpSticks:
            game = super().set_up(text)
            game.to_play = 0
            return game

    class Fails(SetUpSticks):
        @classmethod
        def set_up(cls, text: str) -> SetUpSticks:
            raise KeyError(text)

    class HasNoMoves(SetUpSticks):
        @classmethod
        def set_up(cls, text: str) -> SetUpSticks:
            game = super().set_up(text)
            game.left = -7  # neither over nor with a legal action
            return game

        def setup_text(self) -> str:
            return super().setup_text().removeprefix("-")

    for game, failure, words in (
        (ReadsNothing, ConfigError, r"set_up\('7 first'\) returned None: return the position, or"),
        (WritesTwoLines, ConfigError, r"setup_text\(\) returned .*: give one line of text"),
        (Fails, ConfigError, r"set_up\('7 first'\) raised KeyError"),
        (HasNoMoves, ConfigError, r"it is not over.*; in the position set_up\('7 first'\)"),
        (ForgetsThePlayer, AssertionError, "is another position: setup_text"),
    ):
        with pytest.raises(failure, match=words):
            check_conformance(named(game))
