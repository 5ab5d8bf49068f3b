"""The resignation threshold (v_resign) as Postgres computes it, from games in memory."""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from zerofleet_core import GameColumns

from zerofleet.config import ResignSection


@dataclass(frozen=True, slots=True, eq=False)
class _PlayedOn:
    """A game in which no player resigned."""

    number: int  # number of the game, in the order of their start
    began: float  # by the loop's clock, as the next
    ended: float
    first_model: int
    values: NDArray[np.float32]  # [plies - 1] by which the player to move would give up
    not_lost: NDArray[np.bool_]  # [plies - 1] whether the player to move did not lose


class ResignationRule:
    """Results of the database's ``played_on_games`` and ``resign_curve``, and the choice.

    Args:
        settings: whether, and from which games.
        min_games: with fewer games there is no threshold.
    """

    def __init__(self, settings: ResignSection, min_games: int = ResignSection.min_games) -> None:
        self._settings = settings
        self._min_games = min_games
        self._games: deque[_PlayedOn] = deque(maxlen=2 * settings.window_games)  # as they ended
        self.games = 0
        """Number of games played on."""
        self.threshold: float | None = None
        """v_resign as last computed; None: no player resigns."""

    def add(self, game: GameColumns, began: float, ended: float) -> None:
        """Note a finished game, if it was played on.

        Args:
            game: finished.
            began: when, by any clock that goes on with play.
            ended: when, by the same.
        """
        if not game.plays_on:
            return
        self.games += 1
        signs = 1 - 2 * game.to_play[1:].astype(np.int64)
        self._games.append(
            _PlayedOn(
                game.game_id,
                began,
                ended,
                int(game.model_version[0]),
                np.maximum(game.root_value, game.best_child_value)[1:],
                (game.result or 0) * signs >= 0,
            )
        )

    def compute(self) -> float | None:
        """Return v_resign; while there are too few games, it does not change."""
        games = self._latest()
        if self._settings.enabled and len(games) >= self._min_games:
            self.threshold = self._highest(games)
        return self.threshold

    def _latest(self) -> list[_PlayedOn]:
        """Return the latest games by start; only the newest model's, if there are enough."""
        window = self._settings.window_games
        lately = list(self._games)[-window:]
        if not lately:
            return []
        took = sorted(game.ended - game.began for game in lately)
        long = took[max(0, math.ceil(0.95 * len(took)) - 1)]
        before = max(game.ended for game in lately) - 2 * long
        settled = [game for game in self._games if game.began < before]
        settled = sorted(settled, key=lambda game: (game.began, game.number))[-window:]
        counts = Counter(game.first_model for game in settled)
        enough = [model for model, games in counts.items() if games >= self._min_games]
        return [game for game in settled if game.first_model >= max(enough, default=0)]

    def _highest(self, games: list[_PlayedOn]) -> float | None:
        """Return the highest value at which wrong resignations are rare enough, or None."""
        # A threshold just above a ply's value ends the game there, unless an earlier one is as low.
        lows: list[tuple[float, int, int]] = []  # value, resignations more, wrong ones more
        for game in games:
            lowest = np.minimum.accumulate(game.values) if len(game.values) else game.values
            fresh = np.flatnonzero(np.diff(lowest, prepend=np.float32(np.inf)) < 0)
            wrong = game.not_lost[fresh].astype(int)
            following = np.append(wrong[1:], 0)
            last = np.append(np.zeros(max(0, len(fresh) - 1), int), [1] * min(1, len(fresh)))
            lows += zip(
                game.values[fresh].tolist(),
                last.tolist(),
                (wrong - following).tolist(),
                strict=True,
            )
        settings = self._settings
        best: float | None = None
        would_resign = all_wrong = 0  # below the value
        position = 0
        lows.sort()
        for value in sorted({low[0] for low in lows}):
            while position < len(lows) and lows[position][0] < value:
                would_resign += lows[position][1]
                all_wrong += lows[position][2]
                position += 1
            if value > settings.highest:
                break
            if value >= -1 and all_wrong + 1 <= settings.false_positive_share * (would_resign + 1):
                best = value
        return best
