from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from zerofleet_core import Search, SearchConfig

from zerofleet import games
from zerofleet.errors import ConfigError
from zerofleet.games import Game, State

ROOT = Path(__file__).resolve().parents[2]


class Sticks(Game):
    """Seven sticks, of which a player takes one or two; the player who takes the last one wins."""

    num_actions = 2
    observation_shape = (8, 1, 1)
    max_length = 7

    def __init__(self) -> None:
        self.left = 7
        self.to_play = 0

    @property
    def is_terminal(self) -> bool:
        return self.left == 0

    @property
    def result(self) -> int:
        return 1 if self.to_play == 1 else -1

    def legal_actions(self) -> list[int]:
        return [0, 1][: self.left]

    def apply(self, action: int) -> None:
        self.left -= action + 1
        self.to_play = 1 - self.to_play

    def copy(self) -> Sticks:
        twin = type(self)()
        twin.left, twin.to_play = self.left, self.to_play
        return twin

    def observation(self) -> Any:
        planes = np.zeros((8, 1, 1), np.uint8)
        planes[: self.left] = 1
        planes[7] = self.to_play
        return planes


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Callable[[type], str]:
    """Return a function that puts a class into a module and returns the game's name."""

    def name(game: type) -> str:
        module = ModuleType("games_of_the_unit_tests")
        setattr(module, game.__name__, game)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return f"python:{module.__name__}:{game.__name__}"

    return name


def test_the_least_that_a_class_must_say_is_a_game(named: Callable[[type], str]) -> None:
    name = named(Sticks)
    spec = games.spec(name)
    assert (spec.name, spec.num_actions, spec.max_length) == (name, 2, 7)
    assert (spec.observation_shape, spec.num_symmetries) == ((8, 1, 1), 1)
    state = State(name, [1, 1, 0])
    assert (state.ply, state.to_play, state.is_terminal) == (3, 1, False)
    assert state.observation().tolist() == [0b1100_0001]
    assert games.format_actions(name, [1, 0]) == "1 0"
    assert games.parse_actions(name, "1 0") == [1, 0]
    with pytest.raises(ValueError, match="2"):
        state.string_to_action("2")
    assert str(state).split() == list("##.....#")
    state.apply(1)
    assert (state.is_terminal, state.result) == (True, -1)


def test_the_search_finds_the_win(named: Callable[[type], str]) -> None:
    """With four sticks the player must take one, which leaves three."""
    search = Search(named(Sticks), [[1, 0]], SearchConfig(num_simulations=200), 1)
    while rows := len(search.select()):
        search.backup(np.zeros((rows, 2), np.float32), np.zeros(rows, np.float32), 1)
    assert search.results()[0].best_action == 0


class NoSizes(Game):
    def legal_actions(self) -> list[int]:
        return [0]


class NoGame:
    num_actions = 1


class NeedsArguments(Sticks):
    def __init__(self, sticks: int) -> None:
        super().__init__()
        self.left = sticks


class NoPlayer(Sticks):
    def __init__(self) -> None:
        super().__init__()
        del self.to_play


class SecondBegins(Sticks):
    def __init__(self) -> None:
        super().__init__()
        self.to_play = 1


class TooManyActions(Sticks):
    num_actions = 40_000


class PlanesUntold(Sticks):
    num_final_planes = 1


class LessThanNoPlanes(Sticks):
    num_final_planes = -1


class FlatShape(Sticks):
    observation_shape: Any = (8, 1)


class EmptyShape(Sticks):
    observation_shape = (8, 0, 1)


class OtherShape(Sticks):
    observation_shape = (7, 1, 1)


class Counts(Sticks):
    def observation(self) -> Any:
        return super().observation() * 2


class Floats(Sticks):
    def observation(self) -> Any:
        return super().observation().astype(np.float32)


class Descends(Sticks):
    def legal_actions(self) -> list[int]:
        return [1, 0]


class Repeats(Sticks):
    def legal_actions(self) -> list[int]:
        return [0, 1, 1]


class Negative(Sticks):
    def legal_actions(self) -> list[int]:
        return [-1, 0]


class Beyond(Sticks):
    def legal_actions(self) -> list[int]:
        return [0, 1, 2]


class NothingLegal(Sticks):
    def legal_actions(self) -> list[int]:
        return []


class MovesAtRest(Sticks):
    num_symmetries = 2

    @classmethod
    def symmetric_action(cls, action: int, symmetry: int) -> int:
        return 1 - action


class CountsNoSymmetries(Sticks):
    @classmethod
    def symmetric_action(cls, action: int, symmetry: int) -> int:
        return action


class MovesNothing(Sticks):
    num_symmetries = 2


WRONG: dict[type, str] = {
    NoSizes: r"has no num_actions, observation_shape, max_length, apply\(\), copy\(\), obs",
    NoGame: "derive the class from zerofleet.games.Game",
    NeedsArguments: r"__init__\(\) raised .*'sticks'; write it as def __init__\(self\)",
    NoPlayer: "positions have no to_play",
    SecondBegins: "player 0 must be to play",
    TooManyActions: "num_actions must be 1 to 32767, not 40000",
    PlanesUntold: r"num_final_planes is 1, but the class has no final_planes\(\)",
    LessThanNoPlanes: "num_final_planes must be 0 to 1024, not -1",
    FlatShape: r"observation_shape must be \(planes, rows, columns\), not \(8, 1\)",
    EmptyShape: "each of observation_shape must be 1 to 32768, not 0",
    OtherShape: r"ply 0: observation\(\) has shape \(8, 1, 1\).* is \(7, 1, 1\)",
    Counts: "ply 0: .* has a 2: give zeros and ones",
    Floats: "ply 0: .* dtype float32: give bool or uint8",
    Descends: r"ply 0: .* not in ascending order: 0 comes after 1; return sorted",
    Repeats: r"ply 0: .* not in ascending order: it has 1 twice; return sorted",
    Negative: "ply 0: .* has -1, but num_actions is 2",
    Beyond: "ply 0: .* has 2, but num_actions is 2",
    NothingLegal: r"ply 0: it is not over, but legal_actions\(\) is empty",
    MovesAtRest: "symmetry 0 must be the identity",
    CountsNoSymmetries: r"has symmetric_action\(\), but no num_symmetries: set it",
    MovesNothing: r"num_symmetries is 2, but the class has no symmetric_point\(\)",
}


@pytest.mark.parametrize("game", WRONG)
def test_what_is_wrong_with_a_class_is_said_at_once(
    named: Callable[[type], str], game: type
) -> None:
    name = named(game)
    for ask in (games.spec, State):
        with pytest.raises(ConfigError, match=WRONG[game]) as caught:
            ask(name)
        assert f"game '{name}'" in str(caught.value)


class TellsNoResultBefore(Sticks):
    @property
    def result(self) -> int:
        if not self.is_terminal:
            raise ValueError("it is not over")
        return super().result


def test_the_result_is_read_at_the_end_only(named: Callable[[type], str]) -> None:
    state = State(named(TellsNoResultBefore), [1, 1, 1])
    state.apply(0)
    assert state.result == -1


class BreaksLater(Sticks):
    def legal_actions(self) -> list[int]:
        return [1, 0] if self.left == 5 else super().legal_actions()


class Fails(Sticks):
    def apply(self, action: int) -> None:
        raise KeyError("no such stick")


def test_what_goes_wrong_in_play_names_the_game_and_the_ply(named: Callable[[type], str]) -> None:
    state = State(named(BreaksLater))
    with pytest.raises(RuntimeError, match=r":BreaksLater', ply 1: .*ascending order"):
        state.apply(1)
    with pytest.raises(RuntimeError, match="no such stick"):
        State(named(Fails)).apply(1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("python:nowhere.at.all:Game", "no module nowhere is installed or lies in"),
        ("python:zerofleet.nowhere:Game", "no module zerofleet.nowhere"),
        ("python:examples.domineering:Dominering", "; did you mean 'Domineering'"),
        ("python:examples.domineering:Games", "no class Games; the module is .*domineering.py"),
        ("python:random:Breakthrough", "the module is .*random.py: if you mean another one"),
        ("python:zerofleet.games:spec", "no class spec"),
        ("python:zerofleet.games", "not of the form python:MODULE:CLASS"),
        ("python:zerofleet.games:", "not of the form python:MODULE:CLASS"),
        ("python:examples/domineering.py:Domineering", "with dots, without .py"),
        ("python:examples.domineering.py:Domineering", "with dots, without .py"),
        ("python:examples.domineering:Domineering(size=4)", "derive a class for each variant"),
        ("pyton:examples.domineering:Domineering", "python:MODULE:CLASS"),
    ],
)
def test_a_class_that_is_not_there(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        games.spec(name)
    assert name in str(caught.value)


def test_a_module_that_does_not_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "lacks_a_library.py").write_text("import library_that_is_not_there\n")
    (tmp_path / "divides_by_zero.py").write_text("1 / 0\n")
    with pytest.raises(ConfigError, match="does not import: No module named 'library_that_is"):
        games.spec("python:lacks_a_library:Game")
    with pytest.raises(ConfigError, match="does not import: ZeroDivisionError: division"):
        games.spec("python:divides_by_zero:Game")


def program_in(folder: Path, module: str) -> tuple[str, str]:
    """Run a program in a folder; return its output, the maximum length of the module's ``Mine``."""
    program = f"from zerofleet import games; print(games.spec('python:{module}:Mine').max_length)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout, done.stderr


def test_the_working_directory_is_searched(tmp_path: Path) -> None:
    """This includes programs that Python starts without the directory on the path."""
    (tmp_path / "mine.py").write_text(
        "from examples.domineering import Domineering\nclass Mine(Domineering): max_length = 19\n"
    )
    assert program_in(tmp_path, "mine") == ("19\n", "")


def test_only_the_games_own_module_replaces_an_installed_one(tmp_path: Path) -> None:
    """The module ``wave`` of the standard library is not imported yet when the game is."""
    (tmp_path / "wave.py").write_text(
        "from examples.domineering import Domineering\n"
        "import neighbour, colorsys\n"
        "class Mine(Domineering): max_length = neighbour.LENGTH\n"
    )
    (tmp_path / "neighbour.py").write_text("LENGTH = 21\n")
    (tmp_path / "colorsys.py").write_text("1 / 0\n")
    assert program_in(tmp_path, "wave") == ("21\n", "")
