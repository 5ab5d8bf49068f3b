"""A game written as a Python class, as the core asks for it."""

from __future__ import annotations

import difflib
import importlib
import itertools
import math
import os
import sys
from types import ModuleType
from typing import Any, cast

import numpy as np

from zerofleet.errors import ConfigError
from zerofleet.games.python_game import Game

_MOST_ACTIONS = 32_767  # smallint in positions.action
_MOST_PLIES = 30_000
_SIZES = ("num_actions", "observation_shape", "max_length")
_POSITION = ("to_play", "is_terminal", "result")


def load_class_rules(name: str) -> ClassRules:
    """The rules of ``python:MODULE:CLASS``.

    Raises:
        ConfigError: no such class, or it is not a game; the message says what is missing.
    """
    found = import_class(name)
    if not issubclass(found, Game):
        raise ConfigError(f"game '{name}': derive the class from zerofleet.games.Game")
    return ClassRules(name, found)


class ClassRules:
    """Checks what the class says and answers, and names the game where that is wrong.

    Raises:
        ConfigError: the class does not satisfy ``Game``.
    """

    def __init__(self, name: str, game: type[Game]) -> None:
        self.name = name
        self._game = game
        _require_complete(name, game)
        self.num_actions = _whole(name, "num_actions", game.num_actions, _MOST_ACTIONS)
        self.max_length = _whole(name, "max_length", game.max_length, _MOST_PLIES)
        self.num_symmetries = _whole(name, "num_symmetries", game.num_symmetries, 1 << 10)
        self.observation_shape = _shape(name, game.observation_shape)
        self.num_final_planes = _whole(name, "num_final_planes", game.num_final_planes, 1 << 10, 0)
        self.has_final_score = game.final_score is not Game.final_score
        if self.num_final_planes and game.final_planes is Game.final_planes:
            raise ConfigError(
                f"game '{name}': num_final_planes is {self.num_final_planes}, but the class has no "
                "final_planes()"
            )
        self._check_start()

    def start(self) -> ClassPosition:
        """See ``Rules``."""
        return ClassPosition(self, self._game(), 0)

    def symmetric_point(self, point: int, symmetry: int) -> int:
        """See ``Rules``."""
        return int(self._game.symmetric_point(point, symmetry))

    def symmetric_action(self, action: int, symmetry: int) -> int:
        """See ``Rules``."""
        return int(self._game.symmetric_action(action, symmetry))

    def action_to_string(self, action: int) -> str:
        """See ``Rules``."""
        return self._game.action_to_string(action)

    def string_to_action(self, text: str) -> int | None:
        """See ``Rules``."""
        return self._game.string_to_action(text)

    def _check_start(self) -> None:
        """What is wrong with the start is said before anything is played."""
        try:
            game = self._game()
        except TypeError as error:
            raise ConfigError(
                f"game '{self.name}': the class makes the start without arguments: {error}"
            ) from error
        missing = [each for each in _POSITION if not hasattr(game, each)]
        if missing:
            raise ConfigError(f"game '{self.name}': its positions have no {', '.join(missing)}")
        start = ClassPosition(self, game, 0)
        if start.is_terminal or start.to_play != 0:
            raise ConfigError(f"game '{self.name}': at the start, player 0 must be to play")
        start.legal_actions()
        start.packed_observation()
        points = range(self.observation_shape[1] * self.observation_shape[2])
        if [self.symmetric_point(point, 0) for point in points] != list(points) or [
            self.symmetric_action(action, 0) for action in range(self.num_actions)
        ] != list(range(self.num_actions)):
            raise ConfigError(f"game '{self.name}': symmetry 0 must be the identity")


class ClassPosition:
    """A position with its ply, checked where it answers."""

    __slots__ = ("_game", "_ply", "_rules")

    def __init__(self, rules: ClassRules, game: Game, ply: int) -> None:
        self._rules = rules
        self._game = game
        self._ply = ply

    @property
    def is_terminal(self) -> bool:
        """See ``Position``; a game that goes on for too long is an error, not a draw."""
        over = bool(self._game.is_terminal)
        if not over and self._ply >= self._rules.max_length:
            raise self._wrong(f"it goes on at ply {self._ply}, but max_length is that")
        return over

    @property
    def result(self) -> int:
        """See ``Position``."""
        return self._one_of("result", self._game.result, (-1, 0, 1))

    @property
    def to_play(self) -> int:
        """See ``Position``."""
        return self._one_of("to_play", self._game.to_play, (0, 1))

    def legal_actions(self) -> list[int]:
        """See ``Position``."""
        actions = [int(action) for action in self._game.legal_actions()]
        if not actions:
            raise self._wrong("it is not over, but legal_actions() is empty")
        if any(first >= second for first, second in itertools.pairwise(actions)):
            raise self._wrong(f"legal_actions() is not in ascending order: {actions[:10]}")
        if actions[0] < 0 or actions[-1] >= self._rules.num_actions:
            wrong = actions[0] if actions[0] < 0 else actions[-1]
            raise self._wrong(
                f"legal_actions() has {wrong}, but num_actions is {self._rules.num_actions}"
            )
        return actions

    def apply(self, action: int) -> None:
        """See ``Position``."""
        self._game.apply(action)
        self._ply += 1

    def copy(self) -> ClassPosition:
        """See ``Position``."""
        return ClassPosition(self._rules, self._game.copy(), self._ply)

    def packed_observation(self) -> bytes:
        """See ``Position``."""
        planes = np.asarray(self._game.observation())
        if planes.shape != self._rules.observation_shape:
            raise self._wrong(
                f"observation() has shape {planes.shape}, "
                f"observation_shape is {self._rules.observation_shape}"
            )
        if planes.dtype.name not in ("bool", "uint8"):
            raise self._wrong(f"observation() has dtype {planes.dtype}: give bool or uint8")
        if planes.max() > 1:
            raise self._wrong(f"observation() has a {planes.max()}: give zeros and ones")
        return np.packbits(planes).tobytes()

    def final_planes(self) -> list[int]:
        """See ``Rules``."""
        planes = np.asarray(self._game.final_planes())
        shape = (self._rules.num_final_planes, *self._rules.observation_shape[1:])
        if planes.shape != shape:
            raise self._wrong(f"final_planes() has shape {planes.shape}, not {shape}")
        if planes.dtype.kind not in "bui" or not np.isin(planes, (-1, 0, 1)).all():
            raise self._wrong("final_planes() has other values than the integers -1, 0 and 1")
        return planes.astype(np.int8).ravel().tolist()

    def final_score(self) -> float:
        """See ``Rules``."""
        score = float(self._game.final_score())
        if not math.isfinite(score):
            raise self._wrong(f"final_score() is {score}: give the first player's lead, a number")
        return score

    def __str__(self) -> str:
        return str(self._game)

    def _one_of(self, what: str, value: int, known: tuple[int, ...]) -> int:
        if value not in known:
            raise self._wrong(f"{what} is {value!r}, not one of {known}")
        return int(value)

    def _wrong(self, what: str) -> ConfigError:
        return ConfigError(f"game '{self._rules.name}', ply {self._ply}: {what}")


def _require_complete(name: str, game: type[Game]) -> None:
    missing = [each for each in _SIZES if not hasattr(game, each)]
    missing += [f"{each}()" for each in sorted(game.__abstractmethods__)]
    if missing:
        raise ConfigError(f"game '{name}': the class has no {', '.join(missing)}")


def _whole(name: str, what: str, value: object, most: int, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(f"game '{name}': {what} must be {least} to {most}, not {value!r}")
    return value


def _shape(name: str, value: object) -> tuple[int, int, int]:
    sizes = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()
    if len(sizes) != 3:
        raise ConfigError(
            f"game '{name}': observation_shape must be (planes, rows, columns), not {value!r}"
        )
    planes, rows, columns = (
        _whole(name, "each of observation_shape", size, 1 << 15) for size in sizes
    )
    return planes, rows, columns


def import_class(name: str) -> type[Any]:
    """The class that a name stands for; its module may lie in the working directory.

    Services run where ``zerofleet up`` was typed, so that the same name means the same class to
    all of them. In a container the module is installed, or its folder is on ``PYTHONPATH``.

    Raises:
        ConfigError: the name is not of that form, the module does not import, or has no such class.
    """
    _, _, rest = name.partition(":")
    module_name, _, class_name = rest.partition(":")
    parts = module_name.split(".")
    if not all(map(str.isidentifier, [class_name, *parts])) or parts[-1] == "py":
        raise ConfigError(
            f"game '{name}' is not of the form python:MODULE:CLASS, as in "
            "python:examples.domineering:Domineering; a module is named with dots, without .py"
        )
    module = _import(name, module_name)
    found = getattr(module, class_name, None)
    if isinstance(found, type):
        return found
    classes = [key for key, value in vars(module).items() if isinstance(value, type)]
    nearest = difflib.get_close_matches(class_name, classes, n=1, cutoff=0.5)
    hint = f"; did you mean '{nearest[0]}'?" if nearest else ""
    raise ConfigError(f"game '{name}': module {module_name} has no class {class_name}{hint}")


def _import(name: str, module_name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)  # installed commands do not look there, `python -m` does
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"game '{name}': no module {error.name} is installed or lies in {here}; "
                "start from the folder that holds it, or put that folder on PYTHONPATH"
            ) from error
        raise ConfigError(f"game '{name}': its module does not import: {error}") from error
    except Exception as error:
        raise ConfigError(
            f"game '{name}': its module does not import: {type(error).__name__}: {error}"
        ) from error
