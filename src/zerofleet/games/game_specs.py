"""The available games: their names and sizes, and the rules of games from outside the core.

The name of a game from outside has a colon: the kind, then the game. The core calls ``find`` for
every name that it does not know.
"""

from __future__ import annotations

import difflib
from functools import cache
from typing import Protocol

import zerofleet_core
from zerofleet_core import GameSpec

from zerofleet.errors import ConfigError
from zerofleet.games.python_game import raise_failure_in
from zerofleet.printable import shortened

KINDS = ("openspiel:NAME", "python:MODULE:CLASS")


def names() -> list[str]:
    """Return the names of the core's games in alphabetical order; ``go`` includes ``go(size=9)``.

    Games from outside the core are not listed: any ``openspiel:NAME`` or ``python:MODULE:CLASS``.
    """
    return sorted(zerofleet_core.game_names())


def base_name(game: str) -> str:
    """Return a game's name without its rules, such as ``go`` for ``go(size=9)``."""
    return game.partition("(")[0]


def spec(name: str) -> GameSpec:
    """Return the sizes of a game: actions, observation, longest game, symmetries.

    Args:
        name: name of a game of the core, with its rules in brackets if it has any
            (``go(size=9,komi=7)``), or of a game from outside (``openspiel:chess``,
            ``python:examples.domineering:Domineering``).

    Raises:
        ConfigError: there is no such game. The message names the nearest one, the unknown rule, or
            what a game from outside lacks.
    """
    if is_outside(name):
        outside_rules(name)
    elif base_name(name) not in names():
        raise ConfigError(_unknown(name))
    try:
        return zerofleet_core.game_spec(name)
    except (ValueError, RuntimeError) as error:
        raise_failure_in(error)
        raise ConfigError(str(error)) from error


def _unknown(name: str) -> str:
    known = names()
    family = base_name(name)
    nearest = difflib.get_close_matches(family.lower(), known, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]!r}? " if nearest else ""
    kinds = ", ".join([*known, *KINDS])
    return f"unknown game {shortened(name)!r}; {hint}known games: {kinds}"


class Position(Protocol):
    """A position of a game from outside, as the core calls it."""

    @property
    def is_terminal(self) -> bool:
        """Whether the game is over."""
        ...

    @property
    def result(self) -> int:
        """+1 the first player won, -1 the second, 0 a draw; read from terminal positions only."""
        ...

    @property
    def to_play(self) -> int:
        """0 the first player, 1 the second."""
        ...

    def legal_actions(self) -> list[int]:
        """Return the legal actions in ascending order; not called for terminal positions."""
        ...

    def apply(self, action: int) -> None:
        """Play a legal action."""
        ...

    def copy(self) -> Position:
        """Return an independent copy."""
        ...

    def packed_observation(self) -> bytes:
        """Return the planes as bits, packed as by ``numpy.packbits``."""
        ...


class Rules(Protocol):
    """The rules of a game from outside, as the core calls them.

    They may have more attributes: ``num_final_planes``, with the method ``final_planes() ->
    list[int]`` of positions (points row by row, plane by plane), and ``has_final_score``, with
    ``final_score() -> float``. Both methods are called for terminal positions only. A further one,
    ``player_names``, names the first and the second player, as in ``("White", "Black")``.

    The attribute ``sets_up_positions`` says that games may begin at a given position. The
    rules then have ``set_up(text: str) -> Position``, which raises ``ValueError`` for a text that
    is no position, and positions have ``setup_text() -> str``.
    """

    @property
    def num_actions(self) -> int:
        """Number of actions, which are numbered from 0."""
        ...

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        """(planes, rows, columns)."""
        ...

    @property
    def max_length(self) -> int:
        """Plies of the longest game."""
        ...

    @property
    def num_symmetries(self) -> int:
        """Number of symmetries of the board, the identity included."""
        ...

    def start(self) -> Position:
        """Return the first position; the first player, 0, is to play."""
        ...

    def symmetric_point(self, point: int, symmetry: int) -> int:
        """Return where a symmetry puts a point; points are ``columns * row + column``."""
        ...

    def symmetric_action(self, action: int, symmetry: int) -> int:
        """Return where a symmetry puts an action."""
        ...

    def action_to_string(self, action: int) -> str:
        """Return how people write an action, without spaces."""
        ...

    def string_to_action(self, text: str) -> int | None:
        """Return the action that people write like that; None if there is none."""
        ...


def is_outside(name: str) -> bool:
    """Return whether a name is the name of a game from outside the core."""
    return ":" in name


def find(name: str) -> Rules | None:
    """Return the rules of a game from outside; None for a name that only the core could know.

    Raises:
        ConfigError: there is no such game; the message says what is missing.
    """
    return outside_rules(name) if is_outside(name) else None


@cache
def outside_rules(name: str) -> Rules:
    """Return the rules of a game from outside, made once.

    Raises:
        ConfigError: there is no such game, or it cannot be played here.
    """
    kind, _, rest = name.partition(":")
    # Imported here: most runs play games of the core.
    if kind == "openspiel":
        from zerofleet.games.openspiel import load_openspiel

        return load_openspiel(rest)
    if kind == "python":
        from zerofleet.games.python_game import load_class_rules

        return load_class_rules(name)
    raise ConfigError(
        f"unknown game '{name}': there is no kind '{kind}'; "
        f"games from outside the core are {' and '.join(KINDS)}"
    )
