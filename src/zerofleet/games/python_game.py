"""Games written in Python: a class derived from ``Game``, imported by name and checked.

``load_class_rules`` imports the class behind ``python:MODULE:CLASS``. ``ClassRules`` and
``ClassPosition`` are its rules for the core. They check each return value of the class, and
describe a wrong one with the method, the value and the remedy.
"""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import itertools
import math
import operator
import os
import reprlib
import sys
import traceback
from abc import ABC, abstractmethod
from collections import deque
from importlib.machinery import PathFinder
from types import FunctionType, ModuleType
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from zerofleet.errors import ConfigError
from zerofleet.games.svg_marks import checked_svg

NO_ANSWER = object()
"""Placeholder for the return value of a method that has not returned."""

UNNAMED_PLAYERS = ("the first player", "the second player")

_LATEST: deque[ConfigError] = deque(maxlen=8)  # threads may fail at the same time

_repr = reprlib.Repr()
_repr.maxother = _repr.maxstring = 60
_MOST_ACTIONS = 32_767  # smallint in positions.action
_MOST_PLIES = 30_000
_LONGEST_NAME = 30  # characters of a player's name
_SHOWN_TEXT = 60  # characters of a position's text in messages
_POSITION = ("to_play", "is_terminal", "result")
_SIZES = ("num_actions", "observation_shape", "max_length")
_CLASS_METHODS = (
    "set_up",
    "symmetric_point",
    "symmetric_action",
    "action_to_string",
    "string_to_action",
)


class Game(ABC):
    """A position of a board game for two players, with perfect information and without chance.

    One class is one game, called ``python:MODULE:CLASS`` in a run file. Without arguments it makes
    the start, where the first player, 0, is to play. One player may play twice in a row.

    A class sets ``num_actions``, ``observation_shape`` and ``max_length``; a position has
    ``to_play``, ``is_terminal`` and ``result``, as attributes or properties. Attributes with a
    default are optional.

    Symmetries are permutations of the board under which the rules stay the same. They multiply the
    training data by their number. They are numbered from 0, the identity.
    """

    num_actions: ClassVar[int]
    """Actions are the numbers 0 to this, exclusive; at most 32,767."""
    observation_shape: ClassVar[tuple[int, int, int]]
    """Shape of the network's input, (planes, rows, columns)."""
    max_length: ClassVar[int]
    """Plies of the longest game, at most 30,000: the game must be over by then."""
    num_symmetries: ClassVar[int] = 1
    """Symmetries of the board, the identity included."""
    num_final_planes: ClassVar[int] = 0
    """Number of planes of ``final_planes``; 0: the game has none."""
    player_names: ClassVar[tuple[str, str]] = UNNAMED_PLAYERS
    """Names of the first and the second player for people, such as ``("White", "Black")``."""

    to_play: int
    """0 the first player, 1 the second; in a terminal position, the player who would be next."""
    is_terminal: bool
    """Whether the game is over."""
    result: int
    """+1 the first player won, -1 the second, 0 a draw; read from terminal positions only."""

    @abstractmethod
    def legal_actions(self) -> list[int]:
        """Return the legal actions in ascending order, at least one; not called after the end."""

    @abstractmethod
    def apply(self, action: int) -> None:
        """Play an action that the core has checked to be legal."""

    @abstractmethod
    def copy(self) -> Self:
        """Return an independent copy; the search makes one for each action that it tries."""

    @abstractmethod
    def observation(self) -> NDArray[Any]:
        """Return the planes, ``observation_shape``, bool or uint8 with zeros and ones.

        They must distinguish all positions that the players play differently, including the player
        to move, because the network sees nothing else.
        """

    def final_planes(self) -> NDArray[Any]:
        """Return the owner of each point at the end, which networks can learn in addition.

        +1 where the first player has it, -1 where the second has, 0 where neither has: discs,
        territory, whatever decides. Called for terminal positions only, and only if
        ``num_final_planes`` is above 0. Any integer dtype, (num_final_planes, rows, columns).
        """
        raise NotImplementedError

    def final_score(self) -> float:
        """Return the first player's lead at the end, in the game's points.

        A class that defines it has a score; it is called for terminal positions only.
        """
        raise NotImplementedError

    def perfect_outcomes(self) -> list[int] | None:
        """Return the outcome of each legal action under perfect play, for the player to move.

        +1 win, 0 draw, -1 loss, in the order of ``legal_actions``. Return None for a position that
        takes too long to solve. A class that defines it has an exam: how often does a model lose
        value in positions of random play? In a game of at most 10,000 positions the exam plays
        every line of play instead. The exam calls this only for positions that are not over.
        """
        raise NotImplementedError

    def svg(self) -> str:
        """Return the board and its pieces as SVG elements, for the pages of the dashboard.

        One unit is one cell. The cell of ``(row, column)`` in ``observation_shape`` has its corner
        at ``x="column" y="row"``. The elements are ``g``, ``path``, ``rect``, ``circle``,
        ``ellipse``, ``line``, ``polyline``, ``polygon``, ``text`` and ``tspan``, with attributes of
        geometry, ``fill``, ``stroke`` and ``opacity``; text is centred. ``var(--first)`` and
        ``var(--second)`` are the players' colours, and ``var(--ink)`` is the text's.
        """
        raise NotImplementedError

    @classmethod
    def set_up(cls, text: str) -> Self:
        """Return the position that one line of text describes, so that games may begin there.

        A class that defines it also defines ``setup_text``. Raise ``ValueError`` for a text that is
        no position, with a message for the person who wrote it.
        """
        raise NotImplementedError

    def setup_text(self) -> str:
        """Return one line that ``set_up`` reads: the board, the player to move and counters."""
        raise NotImplementedError

    @classmethod
    def symmetric_point(cls, point: int, symmetry: int) -> int:
        """Return the image of a point under a symmetry; points are ``columns * row + column``."""
        del symmetry
        return point

    @classmethod
    def symmetric_action(cls, action: int, symmetry: int) -> int:
        """Return the image of an action under a symmetry."""
        del symmetry
        return action

    @classmethod
    def action_to_string(cls, action: int) -> str:
        """Return how people write an action, without spaces."""
        return str(action)

    @classmethod
    def string_to_action(cls, text: str) -> int | None:
        """Return the action that people write like that; None if there is none.

        Case is ignored if only one action matches.
        """
        words = [cls.action_to_string(action) for action in range(cls.num_actions)]
        if text in words:
            return words.index(text)
        folded = [word.casefold() for word in words]
        return folded.index(text.casefold()) if folded.count(text.casefold()) == 1 else None

    def __str__(self) -> str:
        """Return a picture of the position; by default the planes, one below the other.

        A picture with a line for each row and a mark for each point, "." for an empty one, also
        becomes the board on the game's page.
        """
        planes = np.asarray(self.observation(), np.bool_)
        return "\n\n".join(
            "\n".join("".join("#" if point else "." for point in row) for row in plane)
            for plane in planes
        )


def remembered(failure: ConfigError) -> ConfigError:
    """Keep a failure so that ``failure_in`` finds it, and return it."""
    _LATEST.append(failure)
    return failure


def failure_in(error: Exception) -> ConfigError | None:
    """Return the class's failure behind the core's ``RuntimeError``; None if it is another error.

    Only its text comes through the core. Its ``__cause__`` is the exception that the class raised.
    """
    text = str(error)
    return next((each for each in reversed(list(_LATEST)) if str(each) in text), None)


def raise_failure_in(error: Exception) -> None:
    """Raise the failure that ``failure_in`` finds; return if there is none."""
    failure = failure_in(error)
    if failure is not None:
        raise failure from failure.__cause__


def describe_failure(
    game: type[Game], access: str, error: Exception, answer: object = NO_ANSWER, wanted: str = ""
) -> str:
    """Describe a class's failure for the person who writes it.

    Args:
        game: the class.
        access: an attribute (``is_terminal``), or a call with its arguments (``apply(3)``).
        error: exception of the call, or of reading its answer.
        answer: the answer, if there is one.
        wanted: the remedy for a wrong answer.
    """
    raised = f"{access} raised {_one_line(traceback.format_exception_only(error)[-1])}"
    place = failure_place(game, error)
    if place:
        return f"{raised} ({place})"
    if answer is not NO_ANSWER:
        return describe_answer(access, answer, wanted)
    name, is_method, _ = access.partition("(")
    if isinstance(error, TypeError) and is_method:  # the call itself failed
        return f"{raised}; write it as def {name}({', '.join(_parameters(name))})"
    return raised


def describe_answer(access: str, answer: object, wanted: str) -> str:
    """Describe a wrong answer and its remedy."""
    verb = "returned" if access.endswith(")") else "is"
    return f"{access} {verb} {_one_line(_repr.repr(answer))}: {wanted}"


def failure_place(kind: type[object], error: Exception) -> str:
    """Return the innermost traceback line in a class's own modules, or else in other code."""
    own = {each.__module__ for each in kind.__mro__ if not _is_ours(each.__module__)}
    frames = [
        (str(frame.f_globals.get("__name__")), frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    theirs = [each for each in frames if not _is_ours(each[0])]
    for _, file, line in reversed([each for each in theirs if each[0] in own] or theirs):
        here = os.path.join(os.getcwd(), "")
        return f"{file.removeprefix(here)}, line {line}"
    return ""


def _inherited(game: type[Game], method: str) -> object:
    """Return the function behind a class method."""
    return getattr(getattr(game, method), "__func__", None)


def _is_ours(module: str) -> bool:
    return module.startswith(("zerofleet.games", "zerofleet.own_player"))


def _parameters(name: str) -> list[str]:
    """Return the parameters of a method of ``Game``."""
    if name == "__init__":
        return ["self"]
    method = inspect.getattr_static(Game, name)
    return list(inspect.signature(getattr(method, "__func__", method)).parameters)


def _one_line(text: str) -> str:
    return " ".join(text.split())


class ClassRules:
    """Rules of a game written in Python, with its sizes and answers checked.

    Raises:
        ConfigError: the class does not satisfy ``Game``.
    """

    def __init__(self, name: str, game: type[Game]) -> None:
        self.name = name
        self._game: Any = game  # a user's class may return any type
        self.num_actions = _whole(name, "num_actions", game.num_actions, _MOST_ACTIONS)
        self.max_length = _whole(name, "max_length", game.max_length, _MOST_PLIES)
        self.num_symmetries = _whole(name, "num_symmetries", game.num_symmetries, 1 << 10)
        self.observation_shape = _shape(name, game.observation_shape)
        self.num_final_planes = _whole(name, "num_final_planes", game.num_final_planes, 1 << 10, 0)
        self.has_final_score = game.final_score is not Game.final_score
        self.knows_perfect_play = game.perfect_outcomes is not Game.perfect_outcomes
        self.draws = game.svg is not Game.svg
        self.player_names = _names(name, game.player_names)
        defines_set_up = _inherited(game, "set_up") is not _inherited(Game, "set_up")
        self.sets_up_positions = defines_set_up
        if defines_set_up != (game.setup_text is not Game.setup_text):
            has, lacks = ("set_up", "setup_text") if defines_set_up else ("setup_text", "set_up")
            raise ConfigError(f"game '{name}': the class has {has}(), but no {lacks}()")
        self._check_symmetries_defined(game)
        if self.num_final_planes and game.final_planes is Game.final_planes:
            raise ConfigError(
                f"game '{name}': num_final_planes is {self.num_final_planes}, but the class has no "
                "final_planes()"
            )
        self._check_start()

    def start(self) -> ClassPosition:
        """See ``Rules``."""
        return ClassPosition(self, self._make_start(), 0)

    def set_up(self, text: str) -> ClassPosition:
        """See ``Rules``."""
        access = f"set_up({text[:_SHOWN_TEXT]!r})"
        try:
            position: object = self._game.set_up(text)
        except ValueError as error:
            reason = _one_line(str(error)) or "it is not a position of this game"
            raise ValueError(reason) from error
        except Exception as error:
            raise self.failed(access, error) from error
        if not isinstance(position, Game):
            wanted = "return the position, or raise ValueError for a text that is none"
            raise self.wrong(describe_answer(access, position, wanted))
        return ClassPosition(self, position, 0)

    def symmetric_point(self, point: int, symmetry: int) -> int:
        """See ``Rules``."""
        points = self.observation_shape[1] * self.observation_shape[2]
        return self._moved("symmetric_point", point, symmetry, points)

    def symmetric_action(self, action: int, symmetry: int) -> int:
        """See ``Rules``."""
        return self._moved("symmetric_action", action, symmetry, self.num_actions)

    def action_to_string(self, action: int) -> str:
        """See ``Rules``."""
        access = f"action_to_string({action})"
        try:
            text: object = self._game.action_to_string(action)
        except Exception as error:
            failure = describe_failure(self._game, access, error)
            if failure_place(self._game, error):
                failure += "; every number below num_actions needs a word, even if never legal"
            raise self.wrong(failure) from error
        if not isinstance(text, str):
            raise self.wrong(describe_answer(access, text, "give the action's word, a str"))
        return text

    def string_to_action(self, text: str) -> int | None:
        """See ``Rules``."""
        access, answer = f"string_to_action({text!r})", cast("Any", NO_ANSWER)
        wanted = f"give a whole number below {self.num_actions}, or None for what is not an action"
        try:
            answer = self._game.string_to_action(text)
            if answer is None:
                return None
            action = operator.index(answer)
        except Exception as error:
            failure = describe_failure(self._game, access, error, answer, wanted)
            if answer is NO_ANSWER:
                failure += "; for a text that is not an action, return None"
            raise self.wrong(failure) from error
        if not 0 <= action < self.num_actions:
            raise self.wrong(describe_answer(access, answer, wanted))
        return action

    def wrong(self, what: str, ply: int | None = None) -> ConfigError:
        """Return an error about the game, or about its position at that ply."""
        where = f"game '{self.name}'" if ply is None else f"game '{self.name}', ply {ply}"
        return remembered(ConfigError(f"{where}: {what}"))

    def failed(
        self,
        access: str,
        error: Exception,
        answer: object = NO_ANSWER,
        wanted: str = "",
        ply: int | None = None,
    ) -> ConfigError:
        """Return an error about a failed call; see ``describe_failure``."""
        return self.wrong(describe_failure(self._game, access, error, answer, wanted), ply)

    def _moved(self, method: str, number: int, symmetry: int, bound: int) -> int:
        access, answer = f"{method}({number}, {symmetry})", NO_ANSWER
        wanted = f"give a whole number below {bound}"
        try:
            answer = getattr(self._game, method)(number, symmetry)
            moved = operator.index(answer)
        except Exception as error:
            raise self.failed(access, error, answer, wanted) from error
        if not 0 <= moved < bound:
            raise self.wrong(describe_answer(access, answer, wanted))
        return moved

    def _make_start(self) -> Game:
        try:
            return self._game()
        except Exception as error:
            raise self.failed("__init__()", error) from error

    def _check_symmetries_defined(self, game: type[Game]) -> None:
        """Check that the class defines both the number of symmetries and what they do, or none."""
        names = ("symmetric_point", "symmetric_action")
        methods = [each for each in names if _inherited(game, each) is not _inherited(Game, each)]
        if self.num_symmetries > 1 and not methods:
            raise self.wrong(
                f"num_symmetries is {self.num_symmetries}, but the class has no symmetric_point() "
                "and no symmetric_action()"
            )
        # A derived class may set it to 1, to do without the symmetries of its base.
        sets_number = any("num_symmetries" in vars(each) for each in game.__mro__ if each != Game)
        if methods and not sets_number:
            raise self.wrong(
                f"the class has {methods[0]}(), but no num_symmetries: set it to the number of "
                "symmetries, the identity included"
            )

    def _check_start(self) -> None:
        """Check the start position, before anything is played."""
        game = self._make_start()
        # `result` may be a property that fails before the end, so it is not read.
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
    """A position with its ply; the return values of its class are checked.

    The search calls it for each node, so a correct value costs only the class's own call.
    """

    __slots__ = ("_game", "_ply", "_rules")

    def __init__(self, rules: ClassRules, game: Game, ply: int) -> None:
        self._rules = rules
        self._game: Any = game  # a user's class may return any type
        self._ply = ply

    @property
    def is_terminal(self) -> bool:
        """See ``Position``; a game longer than ``max_length`` is an error, not a draw."""
        try:
            over = bool(self._game.is_terminal)
        except Exception as error:
            raise self._failed("is_terminal", error) from error
        if not over and self._ply >= self._rules.max_length:
            raise self._wrong(
                f"it has not ended at ply {self._ply} = max_length: raise max_length, or end the "
                "game there"
            )
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
            raise self._wrong(
                "it is not over, but legal_actions() is empty: set is_terminal in apply() where "
                "the game ends, or add an action that passes"
            )
        for first, second in itertools.pairwise(actions):
            if first < second:
                continue
            found = f"it has {first} twice" if first == second else f"{second} comes after {first}"
            raise self._wrong(
                f"legal_actions() is not in ascending order: {found}; return sorted(set(actions))"
            )
        if actions[0] < 0 or actions[-1] >= self._rules.num_actions:
            wrong = actions[0] if actions[0] < 0 else actions[-1]
            raise self._wrong(
                f"legal_actions() has {wrong}, but num_actions is {self._rules.num_actions}: "
                "actions are numbers from 0 to num_actions - 1"
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
                f"apply({action}) returned another position: change the position itself"
            )
        self._ply += 1

    def copy(self) -> ClassPosition:
        """See ``Position``."""
        try:
            twin = self._game.copy()
        except Exception as error:
            raise self._failed("copy()", error) from error
        # It is nearly always of the same class, which is quicker to check.
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

    def perfect_outcomes(self) -> list[int] | None:
        """Return the outcome of each legal action, for the player to move; None: not known."""
        answer: Any = NO_ANSWER
        legal = len(self.legal_actions())
        wanted = f"give +1, 0 or -1 for each of the {legal} legal actions"
        try:
            answer = self._game.perfect_outcomes()
            if answer is None:
                return None
            outcomes = list(map(operator.index, answer))
        except Exception as error:
            raise self._failed("perfect_outcomes()", error, answer, wanted) from error
        if len(outcomes) != legal or not set(outcomes) <= {-1, 0, 1}:
            raise self._wrong(describe_answer("perfect_outcomes()", outcomes, wanted))
        return outcomes

    def svg(self) -> str:
        """Return the picture that the class draws, as a page may show it."""
        answer: Any = NO_ANSWER
        try:
            answer = self._game.svg()
        except Exception as error:
            raise self._failed("svg()", error) from error
        if not isinstance(answer, str):
            raise self._wrong(describe_answer("svg()", answer, "give SVG elements, a str"))
        try:
            return checked_svg(answer)
        except ValueError as error:
            raise self._wrong(f"svg(): {error}") from error

    def setup_text(self) -> str | None:
        """See ``Rules``; None if the class has no notation for positions."""
        if not self._rules.sets_up_positions:
            return None
        try:
            text: object = self._game.setup_text()
        except Exception as error:
            raise self._failed("setup_text()", error) from error
        if not isinstance(text, str) or not text.strip() or len(text.splitlines()) != 1:
            raise self._wrong(describe_answer("setup_text()", text, "give one line of text"))
        return text

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
            raise self._wrong(f"{method}() returned a {kind}: give a numpy array of {numbers}")
        return planes

    def _wrong(self, what: str) -> ConfigError:
        return self._rules.wrong(what, self._ply)

    def _failed(
        self, access: str, error: Exception, answer: object = NO_ANSWER, wanted: str = ""
    ) -> ConfigError:
        return self._rules.failed(access, error, answer, wanted, self._ply)


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


def _names(name: str, value: object) -> tuple[str, str]:
    names = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()
    texts = [each for each in names if isinstance(each, str)]
    fit = [each for each in texts if each.isprintable() and 0 < len(each.strip()) <= _LONGEST_NAME]
    if len(names) != 2 or len(fit) != 2 or fit[0] == fit[1]:
        raise ConfigError(
            f"game '{name}': player_names must be two different names of at most {_LONGEST_NAME} "
            f"characters, not {_repr.repr(value)}"
        )
    return fit[0], fit[1]


def load_class_rules(name: str) -> ClassRules:
    """Return the rules of ``python:MODULE:CLASS``.

    Raises:
        ConfigError: there is no such class, or it is not a game; the message says what is missing.
    """
    found = import_class(name)
    if not issubclass(found, Game):
        raise ConfigError(f"game '{name}': derive the class from zerofleet.games.Game")
    _require_complete(name, found)
    _require_class_methods(name, found)
    return ClassRules(name, found)


def import_class(
    name: str, kind: str = "game", example: str = "python:examples.domineering:Domineering"
) -> type[Any]:
    """Return the class of a name; its module may be in the working directory.

    Services run in the folder where ``zerofleet up`` was started, so the same name means the same
    class to all of them. In a container the module is installed, or its folder is on
    ``PYTHONPATH``. The working directory is not searched first for other modules: ``redis.py``
    there must not replace the library.

    Args:
        name: ``python:MODULE:CLASS``.
        kind: what the class is, for messages.
        example: a name of this kind, for messages.

    Raises:
        ConfigError: the name is not of that form, the module does not import, or has no such class.
    """
    _, _, rest = name.partition(":")
    module_name, _, class_name = rest.partition(":")
    parts = module_name.split(".")
    if not all(map(str.isidentifier, [class_name, *parts])) or parts[-1] == "py":
        rule = "a module is named with dots, without .py"
        if class_name.endswith(")"):
            rule = "a class takes no arguments: derive a class for each variant"
        raise ConfigError(
            f"{kind} '{name}' is not of the form python:MODULE:CLASS, as in {example}; {rule}"
        )
    module = _import(f"{kind} '{name}'", module_name)
    found = getattr(module, class_name, None)
    if isinstance(found, type):
        return found
    classes = [
        key
        for key, value in vars(module).items()
        if isinstance(value, type) and not inspect.isabstract(value)
    ]
    nearest = difflib.get_close_matches(class_name, classes, n=1, cutoff=0.5)
    hint = f"; did you mean '{nearest[0]}'?" if nearest else ""
    file = getattr(module, "__file__", None) or "built into Python"
    if not nearest and os.path.dirname(file) != os.getcwd():
        hint = f"; the module is {file}: if you mean another one, rename yours"
    raise ConfigError(f"{kind} '{name}': module {module_name} has no class {class_name}{hint}")


def _import(label: str, module_name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)  # last, for imports of the class's module
    try:
        _import_from(here, module_name.partition(".")[0])
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"{label}: no module {error.name} is installed or lies in {here}; "
                "start from the folder that holds it, or put that folder on PYTHONPATH"
            ) from error
        raise ConfigError(f"{label}: its module does not import: {error}") from error
    except Exception as error:
        raise ConfigError(
            f"{label}: its module does not import: {type(error).__name__}: {error}"
        ) from error


def _import_from(folder: str, name: str) -> None:
    """Import a top-level module or package from a folder if it exists and is not imported yet."""
    if name in sys.modules:
        return
    spec = PathFinder.find_spec(name, [folder])
    if spec is None or spec.loader is None or spec.origin is None:  # a folder without __init__.py
        return
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _require_complete(name: str, game: type[Game]) -> None:
    missing = [each for each in _SIZES if not hasattr(game, each)]
    missing += [f"{each}()" for each in sorted(game.__abstractmethods__)]
    if missing:
        raise ConfigError(f"game '{name}': the class has no {', '.join(missing)}")


def _require_class_methods(name: str, game: type[Game]) -> None:
    for each in _CLASS_METHODS:
        if isinstance(inspect.getattr_static(game, each), (FunctionType, property)):
            raise ConfigError(
                f"game '{name}': {each}() is a method of a position, and is called on the class: "
                "write @classmethod above it, and cls for self"
            )
