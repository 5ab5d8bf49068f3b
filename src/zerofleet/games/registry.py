"""Which games there are."""

from __future__ import annotations

import difflib

import zerofleet_core
from zerofleet_core import GameSpec

from zerofleet.errors import ConfigError
from zerofleet.games.class_failures import raise_failure_in
from zerofleet.games.outside import KINDS, is_outside, outside_rules


def names() -> list[str]:
    """Names of the core's games, in alphabetical order; ``go`` stands for ``go(size=9)`` as well.

    Games from outside the core are not listed: any ``openspiel:NAME`` or ``python:MODULE:CLASS``.
    """
    return sorted(zerofleet_core.game_names())


def spec(name: str) -> GameSpec:
    """The sizes of a game: actions, observation, longest game, symmetries.

    Args:
        name: of a game of the core, with its rules in brackets where it has any
            (``go(size=9,komi=7)``), or of a game from outside (``openspiel:chess``,
            ``python:examples.domineering:Domineering``).

    Raises:
        ConfigError: there is no such game; the message says which is nearest, which rule is not
            there, or what a game from outside lacks.
    """
    if is_outside(name):
        outside_rules(name)
    elif name.partition("(")[0] not in names():
        raise ConfigError(_unknown(name))
    try:
        return zerofleet_core.game_spec(name)
    except (ValueError, RuntimeError) as error:
        raise_failure_in(error)
        raise ConfigError(str(error)) from error


def _unknown(name: str) -> str:
    known = names()
    family = name.partition("(")[0]
    nearest = difflib.get_close_matches(family.lower(), known, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]!r}? " if nearest else ""
    return f"unknown game {name!r}; {hint}known games: {', '.join(known)}, {', '.join(KINDS)}"
