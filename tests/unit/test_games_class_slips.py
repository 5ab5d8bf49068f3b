"""For a mistake in a user's class, the error names the method, the wrong value and the fix."""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent

import pytest

from zerofleet import cli
from zerofleet.errors import ConfigError
from zerofleet.games import State
from zerofleet.games.conformance import check_conformance
from zerofleet.games.python_game import failure_in

NUMBERS = itertools.count()

HEAD = """\
from examples.domineering import Domineering, np


class Mine(Domineering):
"""

CLASS_METHODS = {
    "symmetric_point": "(self, point, symmetry): return point",
    "symmetric_action": "(self, action, symmetry): return action",
    "action_to_string": "(self, action): return str(action)",
    "string_to_action": "(self, text): return None",
}

# Each entry has the source of a class and its message. The class begins on the file's fifth line.
SLIPS = {
    **{
        f"{name} of a position": (
            f"def {name}{rest}",
            f"{name}() is a method of a position, and is called on the class: "
            "write @classmethod above it, and cls for self",
        )
        for name, rest in CLASS_METHODS.items()
    },
    "string_to_action raises": (
        """
        @classmethod
        def string_to_action(cls, text):
            return [cls.action_to_string(action) for action in range(60)].index(text)
        """,
        "string_to_action('') raised ValueError: '' is not in list (FILE, line 7); "
        "for a text that is not an action, return None",
    ),
    "string_to_action finds -1": (
        """
        @classmethod
        def string_to_action(cls, text):
            return " ".join(map(cls.action_to_string, range(60))).find(text or "?") // 5
        """,
        "string_to_action('') returned -1: give a whole number below 60, "
        "or None for what is not an action",
    ),
    "string_to_action answers a text": (
        """
        @classmethod
        def string_to_action(cls, text):
            return text
        """,
        "string_to_action('a1a2') returned 'a1a2': give a whole number below 60, "
        "or None for what is not an action",
    ),
    "action_to_string answers a number": (
        """
        @classmethod
        def action_to_string(cls, action):
            return action
        """,
        "action_to_string(0) returned 0: give the action's word, a str",
    ),
    "action_to_string raises": (
        """
        @classmethod
        def action_to_string(cls, action):
            return ["a", "b"][action]
        """,
        "action_to_string(2) raised IndexError: list index out of range (FILE, line 7)",
    ),
    "symmetric_point of one argument": (
        """
        @classmethod
        def symmetric_point(cls, point):
            return point
        """,
        "symmetric_point(0, 0) raised TypeError: Mine.symmetric_point() takes 2 positional "
        "arguments but 3 were given; write it as def symmetric_point(cls, point, symmetry)",
    ),
    "symmetric_point leaves the board": (
        """
        @classmethod
        def symmetric_point(cls, point, symmetry):
            return point + symmetry
        """,
        "symmetric_point(35, 1) returned 36: give a whole number below 36",
    ),
    "copy without a return": (
        """
        def copy(self):
            twin = super().copy()
        """,
        "ply 0: copy() returned None: return the copy",
    ),
    "legal_actions without a return": (
        """
        def legal_actions(self):
            actions = super().legal_actions()
        """,
        "ply 0: legal_actions() returned None: "
        "give a list of the actions' numbers, in ascending order",
    ),
    "legal_actions of points": (
        """
        def legal_actions(self):
            return [(0, 1), (0, 2)]
        """,
        "ply 0: legal_actions() returned [(0, 1), (0, 2)]: "
        "give a list of the actions' numbers, in ascending order",
    ),
    "legal_actions of words": (
        """
        def legal_actions(self):
            return ["0", "1"]
        """,
        "ply 0: legal_actions() returned ['0', '1']: "
        "give a list of the actions' numbers, in ascending order",
    ),
    "legal_actions fails as it goes": (
        """
        def legal_actions(self):
            yield 0
            raise TypeError("no\\nmove")
        """,
        "ply 0: legal_actions() raised TypeError: no move (FILE, line 7)",
    ),
    "legal_actions is a property": (
        """
        @property
        def legal_actions(self):
            return [0]
        """,
        "ply 0: legal_actions() raised TypeError: 'list' object is not callable; "
        "write it as def legal_actions(self)",
    ),
    "__init__ raises": (
        """
        def __init__(self):
            self.covered = np.zeros((6, 6)) + None
        """,
        "__init__() raised TypeError: unsupported operand type(s) for +: 'float' and 'NoneType' "
        "(FILE, line 6)",
    ),
    "__init__ wants to know more": (
        """
        def __init__(self, size):
            super().__init__()
        """,
        "__init__() raised TypeError: Mine.__init__() missing 1 required positional argument: "
        "'size'; write it as def __init__(self)",
    ),
    "is_terminal is a method": (
        """
        def __init__(self): pass
        def is_terminal(self): return False
        result = to_play = 0
        """,
        "is_terminal is a method: write @property above it",
    ),
    "to_play of two": (
        """
        @property
        def to_play(self): return np.array([0, 1])
        @to_play.setter
        def to_play(self, player): pass
        """,
        "ply 0: to_play is array([0, 1]): give one of (0, 1)",
    ),
    "apply raises": (
        """
        def apply(self, action):
            if self.covered.sum() == 4:
                {}['lost']
            super().apply(action)
        """,
        "raised KeyError: 'lost' (FILE, line 7)",
    ),
    "apply in a helper": (
        """
        def apply(self, action):
            np.zeros(3).reshape(2, 2)
        """,
        "raised ValueError: cannot reshape array of size 3 into shape (2,2) (FILE, line 6)",
    ),
    "apply makes another position": (
        """
        def apply(self, action):
            twin = self.copy()
            Domineering.apply(twin, action)
            return twin
        """,
        "returned another position: change the position itself",
    ),
    "is_terminal raises": (
        """
        @property
        def is_terminal(self):
            assert self.covered.sum() < 4
            return False
        @is_terminal.setter
        def is_terminal(self, over): pass
        """,
        "ply 2: is_terminal raised AssertionError (FILE, line 7)",
    ),
    "result is forgotten": (
        """
        def apply(self, action):
            super().apply(action)
            self.result = None
        """,
        "result is None, not one of (-1, 0, 1)",
    ),
    "observation of lists": (
        """
        def observation(self):
            return super().observation().tolist()
        """,
        "ply 0: observation() returned a list: give a numpy array of bool or uint8",
    ),
    "observation raises": (
        """
        def observation(self):
            return np.stack([self.covered, self.uncovered])
        """,
        "ply 0: observation() raised AttributeError: "
        "'Mine' object has no attribute 'uncovered' (FILE, line 6)",
    ),
    "__str__ without a return": (
        """
        def __str__(self):
            print(end="")
        """,
        "ply 0: __str__() raised TypeError: __str__ returned non-string (type NoneType); "
        "write it as def __str__(self)",
    ),
    "final_planes of lists": (
        """
        num_final_planes = 1
        def final_planes(self):
            return [[[0] * 6] * 6]
        """,
        "final_planes() returned a list: give a numpy array of integers",
    ),
    "final_score without a return": (
        """
        def final_score(self):
            self.covered.sum()
        """,
        "final_score() returned None: give the first player's lead, a number",
    ),
}


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Return a function that writes a class into a new module and returns the module's name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def write(body: str) -> str:
        # an imported module stays in memory, so each needs another name
        module = f"mine_{next(NUMBERS)}"
        Path(f"{module}.py").write_text(HEAD + indent(dedent(body).strip(), "    ") + "\n")
        return module

    return write


@pytest.mark.parametrize("slip", SLIPS)
def test_check_conformance_says_what_to_mend(written: Callable[[str], str], slip: str) -> None:
    body, words = SLIPS[slip]
    module = written(body)
    with pytest.raises(ConfigError) as caught:
        check_conformance(f"python:{module}:Mine", games=3)
    assert_says(str(caught.value), module, words)


@pytest.mark.parametrize("slip", SLIPS)
def test_up_says_it_in_one_line(
    written: Callable[[str], str],
    slip: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    body, words = SLIPS[slip]
    module = written(body)
    Path("run.toml").write_text(f'name = "mine"\ngame = "python:{module}:Mine"\n')
    monkeypatch.setattr(os, "environ", os.environ.copy())
    monkeypatch.setattr(sys, "argv", ["zerofleet", "up", "run.toml"])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    message = capsys.readouterr().err
    assert re.match(r"zerofleet: (run\.toml: )?game 'python:", message)
    assert message.count("\n") == 1
    assert_says(message, module, words)
    assert not Path("zerofleet-data").exists()


def assert_says(message: str, module: str, words: str) -> None:
    assert f"game 'python:{module}:Mine'" in message
    assert words.replace("FILE", f"{module}.py") in message
    assert "class_rules" not in message


def test_what_the_class_raised_is_the_cause(written: Callable[[str], str]) -> None:
    module = written("def apply(self, action): raise KeyError(action)")
    with pytest.raises(ConfigError) as caught:
        check_conformance(f"python:{module}:Mine")
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.__suppress_context__


def test_every_command_says_it_in_one_line(
    written: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """This includes commands that do not test the class with a game first."""
    name = f"python:{written('def apply(self, action): raise KeyError(action)')}:Mine"
    monkeypatch.setattr(cli, "app", lambda: State(name, [3]))
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    message = capsys.readouterr().err
    assert message.startswith(f"zerofleet: game '{name}', ply 0: apply(3) raised KeyError: 3 (mine")
    assert message.endswith(".py, line 5)\n")


def test_other_errors_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("the game's rules failed: but not of a class")

    assert failure_in(RuntimeError("no class failed")) is None
    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(RuntimeError, match="but not of a class"):
        cli.main()
