"""A game written as a Python class, as the core asks for it."""

from __future__ import annotations

import inspect
import itertools
import math
import operator
from types import FunctionType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from zerofleet.errors import ConfigError
from zerofleet.games.class_failures import (
    NO_ANSWER,
    describe_answer,
    describe_failure,
    remembered,
)
from zerofleet.games.python_game import Game

_MOST_ACTIONS = 32_767  # smallint in positions.action
_MOST_PLIES = 30_000
_POSITION = ("to_play", "is_terminal", "result")


class ClassRules:
    """Checks what the class says and answers, and names the game where that is wrong.

    Raises:
        ConfigError: the class does not satisfy ``Game``.
    """

    def __init__(self, name: str, game: type[Game]) -> None:
        self.name = name
        self._game: Any = game  # what somebody else's class answers may be of any type
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
        return ClassPosition(self, self._make_start(), 0)

    def symmetric_point(self, point: int, symmetry: int) -> int:
        """See ``Rules``."""
        points = self.observation_shape[1] * self.observation_shape[2]
        return self._moved("symmetric_point", point, symmetry, points)

    def symmetric_action(self, action: int, symmetry: int) -> int:
        """See ``Rules``."""
        return self._moved("symmetric_action", action, symmetry, self.num_actions)

    def action_to_string(self, action: int) -> str:
        """See ``Rules``."""
        asked = f"action_to_string({action})"
        try:
            text: object = self._game.action_to_string(action)
        except Exception as error:
            raise self.failed(asked, error) from error
        if not isinstance(text, str):
            raise self.wrong(describe_answer(asked, text, "give the action's word, a str"))
        return text

    def string_to_action(self, text: str) -> int | None:
        """See ``Rules``."""
        asked, answer = f"string_to_action({text!r})", cast("Any", NO_ANSWER)
        wanted = f"give a whole number below {self.num_actions}, or None for what is not an action"
        try:
            answer = self._game.string_to_action(text)
            if answer is None:
                return None
            action = operator.index(answer)
        except Exception as error:
            told = describe_failure(self._game, asked, error, answer, wanted)
            if answer is NO_ANSWER:
                told += "; for a text that is not an action, answer None"
            raise self.wrong(told) from error
        if not 0 <= action < self.num_actions:
            raise self.wrong(describe_answer(asked, answer, wanted))
        return action

    def wrong(self, what: str, ply: int | None = None) -> ConfigError:
        """An error that says so of the game, or of its position at that ply."""
        where = f"game '{self.name}'" if ply is None else f"game '{self.name}', ply {ply}"
        return remembered(ConfigError(f"{where}: {what}"))

    def failed(
        self,
        asked: str,
        error: Exception,
        answer: object = NO_ANSWER,
        wanted: str = "",
        ply: int | None = None,
    ) -> ConfigError:
        """What went wrong when the class was asked; see ``describe_failure``."""
        return self.wrong(describe_failure(self._game, asked, error, answer, wanted), ply)

    def _moved(self, method: str, number: int, symmetry: int, bound: int) -> int:
        asked, answer = f"{method}({number}, {symmetry})", NO_ANSWER
        wanted = f"give a whole number below {bound}"
        try:
            answer = getattr(self._game, method)(number, symmetry)
            moved = operator.index(answer)
        except Exception as error:
            raise self.failed(asked, error, answer, wanted) from error
        if not 0 <= moved < bound:
            raise self.wrong(describe_answer(asked, answer, wanted))
        return moved

    def _make_start(self) -> Game:
        try:
            return self._game()
        except Exception as error:
            raise self.failed("__init__()", error) from error

    def _check_start(self) -> None:
        """What is wrong with the start is said before anything is played."""
        game = self._make_start()
        # `result` may be a property that refuses to answer before the end, so it is not read.
        missing = [
            each for each in _POSITION if not hasattr(self._game, each) and not hasattr(game, each)
        ]
        if missing:
            raise self.wrong(f"its positions have no {', '.join(missing)}")
        for each in _POSITION:
            if isinstance(inspect.getattr_static(self._game, each, None), FunctionType):
                raise self.wrong(f"{each} is a method: write @property above it")
        start = ClassPosition(self, game, 0)
        if start.is_terminal or start.to_play != 0:
            raise self.wrong("at the start, player 0 must be to play")
        start.legal_actions()
        start.packed_observation()
        start.copy()
        self.action_to_string(0)
        points = range(self.observation_shape[1] * self.observation_shape[2])
        if [self.symmetric_point(point, 0) for point in points] != list(points) or [
            self.symmetric_action(action, 0) for action in range(self.num_actions)
        ] != list(range(self.num_actions)):
            raise self.wrong("symmetry 0 must be the identity")


class ClassPosition:
    """A position with its ply, checked where it answers.

    The search asks for each node, so what goes well takes no call more than the class's own.
    """

    __slots__ = ("_game", "_ply", "_rules")

    def __init__(self, rules: ClassRules, game: Game, ply: int) -> None:
        self._rules = rules
        self._game: Any = game  # what somebody else's class answers may be of any type
        self._ply = ply

    @property
    def is_terminal(self) -> bool:
        """See ``Position``; a game that goes on for too long is an error, not a draw."""
        try:
            over = bool(self._game.is_terminal)
        except Exception as error:
            raise self._failed("is_terminal", error) from error
        if not over and self._ply >= self._rules.max_length:
            raise self._wrong(f"it has not ended at ply {self._ply}, and max_length is that number")
        return over

    @property
    def result(self) -> int:
        """See ``Position``."""
        return self._one_of("result", (-1, 0, 1))

    @property
    def to_play(self) -> int:
        """See ``Position``."""
        return self._one_of("to_play", (0, 1))

    def legal_actions(self) -> list[int]:
        """See ``Position``."""
        answer: Any = NO_ANSWER
        try:
            answer = self._game.legal_actions()
            actions = list(map(operator.index, answer))
        except Exception as error:
            wanted = "give a list of the actions' numbers, in ascending order"
            raise self._failed("legal_actions()", error, answer, wanted) from error
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
        try:
            answer: object = self._game.apply(action)
        except Exception as error:
            raise self._failed(f"apply({action})", error) from error
        if answer is not None and answer is not self._game and isinstance(answer, Game):
            raise self._wrong(
                f"apply({action}) answered another position: change the position itself"
            )
        self._ply += 1

    def copy(self) -> ClassPosition:
        """See ``Position``."""
        try:
            twin = self._game.copy()
        except Exception as error:
            raise self._failed("copy()", error) from error
        # Almost always of the same class, and that is quicker to see.
        if type(twin) is not type(self._game) and not isinstance(twin, Game):
            raise self._wrong(describe_answer("copy()", twin, "return the copy"))
        return ClassPosition(self._rules, twin, self._ply)

    def packed_observation(self) -> bytes:
        """See ``Position``."""
        planes = self._array("observation", "bool or uint8")
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
        planes = self._array("final_planes", "integers")
        shape = (self._rules.num_final_planes, *self._rules.observation_shape[1:])
        if planes.shape != shape:
            raise self._wrong(f"final_planes() has shape {planes.shape}, not {shape}")
        if planes.dtype.kind not in "bui" or not np.isin(planes, (-1, 0, 1)).all():
            raise self._wrong("final_planes() has other values than the integers -1, 0 and 1")
        return planes.astype(np.int8).ravel().tolist()

    def final_score(self) -> float:
        """See ``Rules``."""
        answer: Any = NO_ANSWER
        wanted = "give the first player's lead, a number"
        try:
            answer = self._game.final_score()
            score = float(answer)
        except Exception as error:
            raise self._failed("final_score()", error, answer, wanted) from error
        if not math.isfinite(score):
            raise self._wrong(f"final_score() is {score}: {wanted}")
        return score

    def __str__(self) -> str:
        try:
            return str(self._game)
        except Exception as error:
            raise self._failed("__str__()", error) from error

    def _one_of(self, what: str, known: tuple[int, ...]) -> int:
        value: Any = NO_ANSWER
        try:
            value = getattr(self._game, what)
            if value in known:
                return int(value)
        except Exception as error:
            raise self._failed(what, error, value, f"give one of {known}") from error
        raise self._wrong(f"{what} is {value!r}, not one of {known}")

    def _array(self, method: str, numbers: str) -> NDArray[Any]:
        try:
            planes = getattr(self._game, method)()
        except Exception as error:
            raise self._failed(f"{method}()", error) from error
        if not issubclass(type(planes), np.ndarray):
            kind = type(planes).__name__
            raise self._wrong(f"{method}() answered a {kind}: give a numpy array of {numbers}")
        return planes

    def _wrong(self, what: str) -> ConfigError:
        return self._rules.wrong(what, self._ply)

    def _failed(
        self, asked: str, error: Exception, answer: object = NO_ANSWER, wanted: str = ""
    ) -> ConfigError:
        return self._rules.failed(asked, error, answer, wanted, self._ply)


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
