"""What is said where a class of somebody's own fails: the method, what came, and what to mend."""

from __future__ import annotations

import inspect
import os
import reprlib
import traceback
from collections import deque

from zerofleet.errors import ConfigError
from zerofleet.games.python_game import Game

NO_ANSWER = object()
"""Stands for the answer of a method that has not answered."""

_LATEST: deque[ConfigError] = deque(maxlen=8)  # threads may fail at the same time

_repr = reprlib.Repr()
_repr.maxother = _repr.maxstring = 60


def remembered(failure: ConfigError) -> ConfigError:
    """The failure itself, which ``failure_in`` then finds."""
    _LATEST.append(failure)
    return failure


def failure_in(error: Exception) -> ConfigError | None:
    """The failure of a class that the core made a ``RuntimeError`` of; None: it is another error.

    Only its text comes through the core. Its ``__cause__`` is what the class itself raised.
    """
    text = str(error)
    return next((each for each in reversed(list(_LATEST)) if str(each) in text), None)


def raise_failure_in(error: Exception) -> None:
    """Raise the failure that ``failure_in`` finds; return where there is none."""
    failure = failure_in(error)
    if failure is not None:
        raise failure from failure.__cause__


def describe_failure(
    game: type[Game], asked: str, error: Exception, answer: object = NO_ANSWER, wanted: str = ""
) -> str:
    """What went wrong between us and a class, for the person who writes it.

    Args:
        game: the class.
        asked: ``is_terminal``, or a method with its arguments: ``apply(3)``.
        error: came while the class was asked, or while its answer was read.
        answer: what it answered, if it did.
        wanted: the cure for another answer.
    """
    raised = f"{asked} raised {_one_line(traceback.format_exception_only(error)[-1])}"
    place = _place(game, error)
    if place:
        return f"{raised} ({place})"
    if answer is not NO_ANSWER:
        return describe_answer(asked, answer, wanted)
    name, is_method, _ = asked.partition("(")
    if isinstance(error, TypeError) and is_method:  # the call itself went wrong
        return f"{raised}; write it as def {name}({', '.join(_parameters(name))})"
    return raised


def describe_answer(asked: str, answer: object, wanted: str) -> str:
    """That a class answered this, and what it should."""
    verb = "answered" if asked.endswith(")") else "is"
    return f"{asked} {verb} {_one_line(_repr.repr(answer))}: {wanted}"


def _place(game: type[Game], error: Exception) -> str:
    """The innermost line of the class's modules that an error passed, or else of other people's."""
    own = {each.__module__ for each in game.__mro__ if not _is_ours(each.__module__)}
    frames = [
        (str(frame.f_globals.get("__name__")), frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    theirs = [each for each in frames if not _is_ours(each[0])]
    for _, file, line in reversed([each for each in theirs if each[0] in own] or theirs):
        here = os.path.join(os.getcwd(), "")
        return f"{file.removeprefix(here)}, line {line}"
    return ""


def _is_ours(module: str) -> bool:
    return module.startswith("zerofleet.games")


def _parameters(name: str) -> list[str]:
    """Of a method, as ``Game`` has it."""
    if name == "__init__":
        return ["self"]
    method = inspect.getattr_static(Game, name)
    return list(inspect.signature(getattr(method, "__func__", method)).parameters)


def _one_line(text: str) -> str:
    return " ".join(text.split())
