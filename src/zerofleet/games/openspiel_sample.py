"""What random games show of a game of OpenSpiel before it is played.

OpenSpiel says neither which values its tensors hold nor whether an action is always written alike.
The sample is the same in every process: its seed is the game's own name.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from zerofleet.games.openspiel_api import SpielGame, SpielState
from zerofleet.games.openspiel_tensor import Tensor

_GAMES = 20
_POSITIONS = 2_000


@dataclass(slots=True)
class Sample:
    """What was seen."""

    values: list[set[float]]
    """Of each plane of the tensor, other than 0 and 1."""
    texts: dict[int, str] = field(default_factory=dict[int, str])
    """How the actions are written; empty where some action is not always written alike."""
    any_case: bool = True
    """Whether names are case-insensitive: those of the first game use only one case."""


def take_sample(game: SpielGame, tensor: Tensor) -> Sample:
    """Play random games: 20 of them, or as many as 2,000 positions hold."""
    generator = random.Random(f"sample of {game}")
    sample = Sample(values=[set() for _ in range(tensor.shape[0])])
    texts: dict[int, str] | None = {}
    letters: set[str] = set()
    positions = 0
    for number in range(_GAMES):
        state = game.new_initial_state()
        while not state.is_terminal() and positions < _POSITIONS:
            positions += 1
            player, legal = state.current_player(), state.legal_actions()
            planes = tensor.read(state, player)
            for plane in np.flatnonzero(((planes != 0) & (planes != 1)).any(axis=(1, 2))):
                sample.values[plane].update(np.unique(planes[plane]).tolist())
            texts = _with_texts(texts, state, player, legal)
            if number == 0:
                letters.update(*(state.action_to_string(player, action) for action in legal))
            # Of the generator's methods only this one stays the same in all versions of Python.
            state.apply_action(legal[int(generator.random() * len(legal))])
    sample.any_case = not (any(map(str.isupper, letters)) and any(map(str.islower, letters)))
    if texts is not None and _are_plain(texts):
        sample.texts = texts
    return sample


def _with_texts(
    texts: dict[int, str] | None, state: SpielState, player: int, legal: list[int]
) -> dict[int, str] | None:
    if texts is None:
        return None
    for action in legal:
        text = state.action_to_string(player, action)
        if texts.setdefault(action, text) != text:
            return None
    return texts


def _are_plain(texts: dict[int, str]) -> bool:
    """Whether each text stands for one action, and can stand in a line between numbers."""
    every = texts.values()
    return len(set(every)) == len(texts) and all(
        len(text.split()) == 1 and text.strip() == text and not text.isdecimal() for text in every
    )
