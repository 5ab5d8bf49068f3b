"""Base class of players of your own, which are opponents in matches and rating games.

``python:MODULE:CLASS`` names a class wherever the name of an anchor is allowed. Each process that
plays runs ``serve``, which exchanges lines of JSON with the evaluator.
"""

from __future__ import annotations

import json
import operator
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TextIO

from zerofleet.errors import ConfigError
from zerofleet.games import State
from zerofleet.games.python_game import failure_place, import_class
from zerofleet.printable import printable, shortened

_LARGEST_ACTION = 1 << 31
_LONGEST_REASON = 500


class OwnPlayer(ABC):
    """A player that chooses an action in each position.

    A few processes play all games of a match, and each process makes one player. Two positions of
    one game may go to different processes, and one position may be asked twice. So ``choose``
    should depend on its arguments alone, or on chance.

    Args:
        game: name of the game, as in the run file.
    """

    def __init__(self, game: str) -> None:
        self.game = game
        """Name of the game, as in the run file."""

    @abstractmethod
    def choose(self, state: State, actions: Sequence[int]) -> int:
        """Return a legal action, within two minutes.

        Args:
            state: the position, where this player is to move. It is a copy: you may change it.
            actions: the actions that led to it from the start of the game.
        """


def load_own_player(name: str, game: str) -> OwnPlayer:
    """Make the player of ``python:MODULE:CLASS``.

    Raises:
        ConfigError: there is no such class, it is not a player, or ``__init__`` fails.
    """
    kind = import_class(name, "player", "python:examples.greedy:Greedy")
    if not issubclass(kind, OwnPlayer):
        raise ConfigError(f"player '{name}': derive the class from zerofleet.own_player.OwnPlayer")
    try:
        return kind(game)
    except Exception as error:
        raise ConfigError(f"player '{name}': {_failure(kind, '__init__(game)', error)}") from error


def serve(name: str, game: str) -> None:
    """Answer questions on standard input until it ends; each question and answer is one line.

    A question is ``choose [START, ACTIONS]``, or ``make`` as the first one. An answer is an object
    with one key: ``ready``, the ``action``, a ``wrong`` answer as text, or an ``error``. What the
    player prints goes to standard error.
    """
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    player: OwnPlayer | None = None
    for line in sys.stdin:
        command, _, question = line.strip().partition(" ")
        if command == "quit":
            return
        if player is None:
            try:
                player = load_own_player(name, game)
            except ConfigError as error:
                _write(answers, {"error": str(error)})
                return
        answer = _choice(player, *json.loads(question)) if question else {"ready": True}
        _write(answers, answer)


def _choice(player: OwnPlayer, start: str, actions: list[int]) -> dict[str, Any]:
    state = State(player.game, actions, start)
    try:
        found: object = player.choose(state, tuple(actions))
    except Exception as error:
        access = f"choose(state, {shortened(str(actions))})"
        return {"error": _failure(type(player), access, error)}
    try:
        action = operator.index(found)
        if abs(action) <= _LARGEST_ACTION:
            return {"action": action}
    except Exception:
        pass  # no whole number
    return {"wrong": _shown(found)}


def _shown(found: object) -> str:
    """Return the text of any object, also of one that has none."""
    try:
        return printable(shortened(repr(found)))
    except Exception:
        return f"an object of the class {type(found).__name__}"


def _failure(kind: type[OwnPlayer], access: str, error: Exception) -> str:
    place = failure_place(kind, error)
    text = f"{access} raised {type(error).__name__}: {error}"
    return f"{text} ({place})" if place else text


def _write(answers: TextIO, answer: dict[str, Any]) -> None:
    short = {k: v[:_LONGEST_REASON] if isinstance(v, str) else v for k, v in answer.items()}
    answers.write(f"{json.dumps(short)}\n")
    answers.flush()
