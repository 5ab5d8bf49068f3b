"""Positions where the player was most wrong, at which new games of self-play begin.

Regret is defined as in Tsai et al. 2026, "Regret-Guided Search Control for Efficient Learning in
AlphaZero" (arXiv 2602.20809): how far the values from a position to the end of its game are from
the game's result. Restarting there shows the network again what it has not learnt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RECENT_GAMES = 2_000
"""Newest games of the training window whose regrets count."""
MOST_RESTARTS = 200
"""Positions offered to self-play at one time."""
LEAST_REGRET = 0.25
"""Regret under which a position counts as mastered: values are off by 0.5."""


@dataclass(frozen=True, slots=True)
class Restart:
    """A position at which games begin, and how wrong the player was there.

    Args:
        actions: the actions from the usual start to the position.
        regret: mean squared difference of value and result, 0 to 4.
    """

    actions: tuple[int, ...]
    regret: float


class RestartBuffer:
    """Chooses restarts among the positions of the newest games.

    Of each game, the position with the largest regret is a candidate. A game that began at a
    restart measures the regret of that position again, and its figure replaces the older one. The
    same games in the same order give the same restarts.
    """

    def __init__(self) -> None:
        self._games: deque[tuple[Restart, Restart]] = deque(maxlen=RECENT_GAMES)

    def add(
        self,
        action: NDArray[np.int16],
        to_play: NDArray[np.int8],
        root_value: NDArray[np.float32],
        full_search: NDArray[np.bool_],
        result: int,
    ) -> None:
        """Add a game that began at the usual start.

        Args:
            action: ``[plies]``.
            to_play: ``[plies]``, 0 or 1.
            root_value: ``[plies]``, for the player to move.
            full_search: ``[plies]``; only these values count, and only finite ones.
            result: for the first player: 1, 0 or -1.
        """
        counts = full_search & np.isfinite(root_value)
        regrets = regrets_of(to_play, root_value, counts, result)
        searched = np.flatnonzero(counts)
        if not len(searched):
            # A player who resigns at once at a restart knows the result.
            end = Restart(tuple(action.tolist()), 0.0)
            self._games.append((end, end))
            return
        first, worst = int(searched[0]), int(np.nanargmax(regrets))

        def at(ply: int) -> Restart:
            return Restart(tuple(action[:ply].tolist()), float(regrets[ply]))

        self._games.append((at(first), at(worst)))

    def restarts(self) -> list[Restart]:
        """Return at most ``MOST_RESTARTS`` positions, those with the largest regret first.

        The usual start is none of them, because games begin there anyway.
        """
        worst: dict[tuple[int, ...], list[float]] = {}
        for _, each in self._games:
            worst.setdefault(each.actions, []).append(each.regret)
        again: dict[tuple[int, ...], list[float]] = {}
        for each, _ in self._games:
            if each.actions in worst:
                again.setdefault(each.actions, []).append(each.regret)
        found = [
            Restart(actions, float(np.mean(again.get(actions, regrets))))
            for actions, regrets in worst.items()
            if actions
        ]
        return _largest(each for each in found if each.regret >= LEAST_REGRET)


def regrets_of(
    to_play: NDArray[np.int8],
    root_value: NDArray[np.float32],
    full_search: NDArray[np.bool_],
    result: int,
) -> NDArray[np.float64]:
    """Return the regret of each ply, ``[plies]``: the mean over it and all later ones.

    A ply without a full search has NaN, and does not count for the others. See ``RestartBuffer``
    for the arguments.
    """
    wanted = np.where(to_play == 0, result, -result)
    errors = np.where(full_search, (root_value - wanted).astype(np.float64) ** 2, 0.0)
    sums, counts = np.cumsum(errors[::-1])[::-1], np.cumsum(full_search[::-1])[::-1]
    return np.where(full_search, sums / np.maximum(counts, 1), np.nan)


def _largest(restarts: Iterable[Restart]) -> list[Restart]:
    """Return the ones with the largest regret; ties in the order of their actions."""
    return sorted(restarts, key=lambda each: (-each.regret, each.actions))[:MOST_RESTARTS]
