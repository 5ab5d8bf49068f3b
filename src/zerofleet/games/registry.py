"""Which games there are."""

from __future__ import annotations

import difflib

import zerofleet_core
from zerofleet_core import GameSpec

from zerofleet.errors import ConfigError


def names() -> list[str]:
    """Names of all games, in alphabetical order."""
    return sorted(zerofleet_core.game_names())


def spec(name: str) -> GameSpec:
    """The sizes of a game: actions, observation, longest game, symmetries.

    Raises:
        ConfigError: no game has this name; the message says which is nearest and which there are.
    """
    known = names()
    if name not in known:
        nearest = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
        hint = f"did you mean {nearest[0]!r}? " if nearest else ""
        raise ConfigError(f"unknown game {name!r}; {hint}known games: {', '.join(known)}")
    return zerofleet_core.game_spec(name)
