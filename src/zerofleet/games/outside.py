"""Games from outside the core, whose names have a colon: the kind, then the game.

The core asks ``find`` for every name that it does not know itself.
"""

from __future__ import annotations

from functools import cache
from typing import Protocol

from zerofleet.errors import ConfigError

KINDS = ("openspiel:NAME", "python:MODULE:CLASS")


class Position(Protocol):
    """A position of a game from outside, as the core asks for it."""

    @property
    def is_terminal(self) -> bool:
        """Whether the game is over."""
        ...

    @property
    def result(self) -> int:
        """+1 the first player won, -1 the second, 0 a draw; asked of terminal positions only."""
        ...

    @property
    def to_play(self) -> int:
        """0 the first player, 1 the second."""
        ...

    def legal_actions(self) -> list[int]:
        """In ascending order; asked of positions that are not terminal."""
        ...

    def apply(self, action: int) -> None:
        """Play a legal action."""
        ...

    def copy(self) -> Position:
        """An independent copy."""
        ...

    def packed_observation(self) -> bytes:
        """The planes as bits, as ``numpy.packbits`` packs them."""
        ...


class Rules(Protocol):
    """The rules of a game from outside, as the core asks for them.

    They may have two more attributes: ``num_final_planes``, with ``final_planes() -> list[int]`` of
    positions (of each plane the points, row by row), and ``has_final_score``, with
    ``final_score() -> float``. Both methods are asked of terminal positions only.
    """

    @property
    def num_actions(self) -> int:
        """Actions are 0 to this, exclusive."""
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
        """Of the board, the identity included."""
        ...

    def start(self) -> Position:
        """The first position; the first player, 0, is to play."""
        ...

    def symmetric_point(self, point: int, symmetry: int) -> int:
        """Where a symmetry puts a point; points are ``columns * row + column``."""
        ...

    def symmetric_action(self, action: int, symmetry: int) -> int:
        """Where a symmetry puts an action."""
        ...

    def action_to_string(self, action: int) -> str:
        """How people write an action, without spaces."""
        ...

    def string_to_action(self, text: str) -> int | None:
        """The action that people write like that; None: there is none."""
        ...


def is_outside(name: str) -> bool:
    """Whether a name is of a game from outside the core."""
    return ":" in name


def find(name: str) -> Rules | None:
    """The rules of a game from outside; None for a name that only the core could know.

    Raises:
        ConfigError: there is no such game; the message says what is missing.
    """
    return outside_rules(name) if is_outside(name) else None


@cache
def outside_rules(name: str) -> Rules:
    """The rules of a game from outside, made once.

    Raises:
        ConfigError: there is no such game, or it cannot be played here.
    """
    kind, _, rest = name.partition(":")
    # Imported here: most runs play games of the core.
    if kind == "openspiel":
        from zerofleet.games.openspiel import load_openspiel

        return load_openspiel(rest)
    if kind == "python":
        from zerofleet.games.class_import import load_class_rules

        return load_class_rules(name)
    raise ConfigError(
        f"unknown game '{name}': there is no kind '{kind}'; "
        f"games from outside the core are {' and '.join(KINDS)}"
    )
