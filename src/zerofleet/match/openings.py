"""Openings of a match: random, seeded, distinct, each played twice with colours swapped."""

from __future__ import annotations

import random

from zerofleet.errors import ConfigError
from zerofleet.games import State

_MOST_MISSES = 2_000  # draws in a row without a new position: the game offers no more


def draw_openings(game: str, plies: int, count: int, seed: int) -> list[list[int]]:
    """Draw random openings that lead to distinct positions, none of them the end of the game.

    The search of a match has no noise, so the same position twice would give the same game twice:
    a game that offers fewer positions than ``count`` gets fewer openings.

    Args:
        game: name of the game.
        plies: actions of each opening.
        count: openings wanted.
        seed: the same arguments give the same openings, on any machine.

    Raises:
        ConfigError: no game lasts longer than ``plies``.
    """
    rng = random.Random(seed)
    openings: dict[int, list[int]] = {}  # by hash of the position they lead to
    misses = 0
    while len(openings) < count and misses < _MOST_MISSES:
        state, actions = _random_opening(game, plies, rng)
        if state.is_terminal or state.hash in openings:
            misses += 1
            continue
        openings[state.hash] = actions
        misses = 0
    if not openings:
        raise ConfigError(
            f"evaluator.opening_plies = {plies}: every game of {game} is over after that many plies"
        )
    return list(openings.values())


def _random_opening(game: str, plies: int, rng: random.Random) -> tuple[State, list[int]]:
    state = State(game)
    actions: list[int] = []
    while len(actions) < plies and not state.is_terminal:
        action = rng.choice(state.legal_actions())
        state.apply(action)
        actions.append(action)
    return state, actions
