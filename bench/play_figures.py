"""Properties of self-play games: variety, length, certainty of their searches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from zerofleet_core import GameColumns


class PlayFigures:
    """Figures of some finished games."""

    def __init__(self) -> None:
        self.games = 0
        self._played: set[bytes] = set()
        self._drawn = self._resigned = self._plies = 0
        self._searches = 0
        self._prior_entropy = self._target_entropy = 0.0

    def add(self, game: GameColumns) -> None:
        """Count a game."""
        self.games += 1
        self._played.add(game.action.tobytes())
        self._drawn += game.result == 0
        self._resigned += game.reason == "resign"
        self._plies += game.plies
        full = game.full_search
        self._searches += int(np.count_nonzero(full))
        self._prior_entropy += _entropy(game.priors, game.offsets)[full].sum()
        self._target_entropy += _entropy(game.policy_weights, game.offsets)[full].sum()

    def row(self) -> dict[str, float | None]:
        """Shares of the games, their mean length in plies, and mean entropies in nats."""

        def mean(total: float, number: int) -> float | None:
            return round(float(total) / number, 4) if number else None

        return {
            "distinct": mean(len(self._played), self.games),
            "draws": mean(self._drawn, self.games),
            "resigned": mean(self._resigned, self.games),
            "length": mean(self._plies, self.games),
            "prior_entropy": mean(self._prior_entropy, self._searches),
            "target_entropy": mean(self._target_entropy, self._searches),
        }


def _entropy(weights: NDArray[np.generic], offsets: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the entropy of each ply's distribution in nats, ``[plies]``; 0 where there is none.

    Args:
        weights: ``[offsets[-1]]``, of any scale.
        offsets: ``[plies + 1]``.
    """
    w = weights.astype(np.float64)
    total = _sums(w, offsets)
    with np.errstate(divide="ignore", invalid="ignore"):
        w_log_w = _sums(np.where(w > 0, w * np.log(w), 0.0), offsets)
        return np.where(total > 0, np.log(total) - w_log_w / total, 0.0)


def _sums(column: NDArray[np.float64], offsets: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the sum for each ply, ``[plies]``."""
    running = np.concatenate(([0.0], np.cumsum(column)))
    return running[offsets[1:]] - running[offsets[:-1]]
