"""A player of your own, for Dots and Boxes: it looks one action ahead.

``zerofleet match 3 python:examples.greedy:Greedy examples/dots_and_boxes.toml``
"""

import random
from collections.abc import Sequence

from zerofleet.games import State
from zerofleet.own_player import OwnPlayer


class Greedy(OwnPlayer):
    """Completes a box if it can. Otherwise it avoids edges that let the opponent complete one."""

    def choose(self, state: State, actions: Sequence[int]) -> int:
        """Return an action; the same game always gets the same answer."""
        legal = state.legal_actions()
        safe = [action for action in legal if not completing(after(state, action))]
        return random.Random(str(actions)).choice(completing(state) or safe or legal)


def completing(state: State) -> list[int]:
    """Return the actions that complete a box: the same player draws again, or the game is over."""
    following = {action: after(state, action) for action in state.legal_actions()}
    return [
        action
        for action, position in following.items()
        if position.is_terminal or position.to_play == state.to_play
    ]


def after(state: State, action: int) -> State:
    """Return the position after an action."""
    copy = state.copy()
    copy.apply(action)
    return copy
