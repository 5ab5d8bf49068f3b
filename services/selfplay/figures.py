"""What this worker did lately, as the rates that heartbeats and people want."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from services.selfplay.lane import Lane

_WINDOW_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts since the worker's start, over all its engines."""

    games: int = 0
    resigned_games: int = 0  # of these
    plies: int = 0
    positions: int = 0  # that the network predicted
    simulations: int = 0
    cache_hits: int = 0

    @classmethod
    def of(cls, lanes: Sequence[Lane]) -> Totals:
        """Sum the engines' statistics, and what the lanes have seen."""
        statistics = [lane.engine.statistics for lane in lanes]
        return cls(
            games=sum(each.games_finished for each in statistics),
            resigned_games=sum(lane.resigned_games for lane in lanes),
            plies=sum(each.plies for each in statistics),
            positions=sum(each.positions_evaluated for each in statistics),
            simulations=sum(each.simulations for each in statistics),
            cache_hits=sum(each.cache_hits for each in statistics),
        )


class Rates:
    """Rates over the last half minute, from totals taken now and then."""

    def __init__(self) -> None:
        self._taken: deque[tuple[float, Totals]] = deque()

    def take(self, seconds: float, totals: Totals) -> dict[str, float]:
        """Remember ``totals`` at ``seconds`` (monotonic) and answer the rates up to it."""
        self._taken.append((seconds, totals))
        while seconds - self._taken[0][0] > _WINDOW_SECONDS:
            self._taken.popleft()
        since, before = self._taken[0]
        elapsed = max(seconds - since, 1e-9)
        positions = totals.positions - before.positions
        hits = totals.cache_hits - before.cache_hits
        return {
            "games": float(totals.games),
            "resigned_games": float(totals.resigned_games),
            "games_per_hour": (totals.games - before.games) / elapsed * 3600.0,
            "positions_per_s": positions / elapsed,
            "simulations_per_s": (totals.simulations - before.simulations) / elapsed,
            "cache_hit_rate": hits / (hits + positions) if hits + positions else 0.0,
        }
