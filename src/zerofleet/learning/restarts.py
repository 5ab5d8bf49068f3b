"""Restarts: positions with a large regret, at which new games of self-play begin.

The regret of a position is the mean squared difference between the game's result and the values
from the position to the end of the game (Tsai et al. 2026, "Regret-Guided Search Control for
Efficient Learning in AlphaZero", arXiv 2602.20809). Restarts show the network again what it has not
learnt.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RECENT_GAMES = 2_000
"""Number of the newest training games whose regrets count."""
MOST_RESTARTS = 200
"""Most positions offered to self-play at one time."""
LEAST_REGRET = 0.25
"""Regret below which a position counts as mastered; values that are off by 0.5 have this regret."""


@dataclass(frozen=True, slots=True)
class Restart:
    """A position at which games begin, with its regret.

    Args:
        actions: the actions from the usual start to the position.
        regret: mean squared difference of value and result from the position to the end, 0 to 4.
    """

    actions: tuple[int, ...]
    regret: float


class RestartBuffer:
    """Chooses restarts among the positions of the newest games.

    The position with the largest regret in each game is a candidate. Games that begin at a
    candidate measure its regret again, and the mean of their regrets replaces the earlier one. The
    same games in the same order give the same restarts.
    """

    def __init__(self) -> None:
        # The first searched position of each game, and the position with the largest regret.
        self._games: deque[tuple[Restart, Restart]] = deque(maxlen=RECENT_GAMES)

    def add(
        self,
        action: NDArray[np.int16],
        to_play: NDArray[np.int8],
        root_value: NDArray[np.float32],
        full_search: NDArray[np.bool_],
        result: int,
    ) -> None:
        """Add a game that began at the usual start. A game without a full search is ignored.

        Args:
            action: ``[plies]``.
            to_play: ``[plies]``, 0 or 1.
            root_value: ``[plies]``, for the player to move, -1 to 1.
            full_search: ``[plies]``; values of other plies do not count.
            result: for the first player: 1, 0 or -1.
        """
        regrets = regrets_of(to_play, root_value, full_search, result)
        searched = np.flatnonzero(full_search)
        if not len(searched):
            return
        first, worst = int(searched[0]), int(np.nanargmax(regrets))

        def at(ply: int) -> Restart:
            return Restart(tuple(action[:ply].tolist()), float(regrets[ply]))

        self._games.append((at(first), at(worst)))

    def restarts(self) -> list[Restart]:
        """Return at most ``MOST_RESTARTS`` positions, the largest regret first.

        The usual start is left out, because games begin there anyway. Equal regrets are in the
        order of their actions.
        """
        candidates: dict[tuple[int, ...], list[float]] = {}
        for _, worst in self._games:
            candidates.setdefault(worst.actions, []).append(worst.regret)
        measured_again: dict[tuple[int, ...], list[float]] = {}
        for first, _ in self._games:
            if first.actions in candidates:
                measured_again.setdefault(first.actions, []).append(first.regret)
        restarts = [
            Restart(actions, float(np.mean(measured_again.get(actions, regrets))))
            for actions, regrets in candidates.items()
            if actions
        ]
        restarts = [each for each in restarts if each.regret >= LEAST_REGRET]
        return sorted(restarts, key=lambda each: (-each.regret, each.actions))[:MOST_RESTARTS]


def regrets_of(
    to_play: NDArray[np.int8],
    root_value: NDArray[np.float32],
    full_search: NDArray[np.bool_],
    result: int,
) -> NDArray[np.float64]:
    """Return the regret of each ply, ``[plies]``: the mean squared error from this ply to the end.

    A ply without a full search has the regret NaN, and its value does not count for other plies.
    See ``RestartBuffer.add`` for the arguments.
    """
    outcome = np.where(to_play == 0, result, -result)
    errors = np.where(full_search, (root_value - outcome).astype(np.float64) ** 2, 0.0)
    sums, counts = np.cumsum(errors[::-1])[::-1], np.cumsum(full_search[::-1])[::-1]
    return np.where(full_search, sums / np.maximum(counts, 1), np.nan)
