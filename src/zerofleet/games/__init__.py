"""The rules of the games, as Python sees them.

``State`` is a position: ``State("connect_four", [3, 3])`` plays two actions from the start, checks
them against the rules, and prints as a picture of the board. The rules themselves are in C++.
"""

from zerofleet_core import GameSpec, State

from zerofleet.games.notation import format_actions, parse_actions
from zerofleet.games.registry import names, spec

__all__ = ["GameSpec", "State", "format_actions", "names", "parse_actions", "spec"]
