"""The rules of the games, in Python.

``State`` is a position: ``State("connect_four", [3, 3])`` plays two actions from the start, checks
them against the rules, and prints as a picture of the board. The rules of the core's games are in
C++. Importing this package also enables games from outside the core: ``openspiel:chess``, and
classes derived from ``Game``.
"""

import zerofleet_core
from zerofleet_core import GameSpec, State

from zerofleet.games.game_specs import find, names, spec
from zerofleet.games.notation import format_actions, parse_actions
from zerofleet.games.python_game import Game

__all__ = ["Game", "GameSpec", "State", "format_actions", "names", "parse_actions", "spec"]

zerofleet_core.set_outside_games(find)  # pyright: ignore[reportUnknownMemberType]  the stub is generated
