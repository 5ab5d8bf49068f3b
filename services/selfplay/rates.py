"""What this worker did lately, as rates for heartbeats and people."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from zerofleet.config import RunConfig
from zerofleet.fleet.figures import SelfplayFigures
from zerofleet.services.selfplay.engine_loop import EngineLoop

_WINDOW_SECONDS = 30.0
_PLIES_TO_COUNT = 4  # of each game: from then on a worker's own plies say what one costs


@dataclass(frozen=True, slots=True)
class PlayTotals:
    """Counts since the worker's start, over all its engines."""

    games: int = 0
    resigned_games: int = 0  # of these
    plies: int = 0
    positions: int = 0  # that the network predicted
    simulations: int = 0
    cache_hits: int = 0

    @classmethod
    def of(cls, loops: Sequence[EngineLoop]) -> PlayTotals:
        """Sum the engines' statistics, and what their loops have seen."""
        statistics = [loop.engine.statistics for loop in loops]
        return cls(
            games=sum(each.games_finished for each in statistics),
            resigned_games=sum(loop.resigned_games for loop in loops),
            plies=sum(each.plies for each in statistics),
            positions=sum(each.positions_evaluated for each in statistics),
            simulations=sum(each.simulations for each in statistics),
            cache_hits=sum(each.cache_hits for each in statistics),
        )


class PlyCost:
    """Simulations that a ply costs: they turn simulations into positions to train on.

    A worker's games begin together, so its plies come in waves: none for minutes, then hundreds.
    Simulations come evenly. What a ply costs is taken from the newest plies, so many that all games
    have played some: it changes while simulations grow over a run.
    """

    def __init__(self, run: RunConfig) -> None:
        search, play = run.search, run.selfplay
        fast = search.fast_simulations or max(1, search.num_simulations // 10)
        share = search.full_search_share
        self._expected = share * search.num_simulations + (1 - share) * fast
        self._enough_plies = _PLIES_TO_COUNT * play.engines * play.games_per_engine
        self._since = PlayTotals()  # what the cost is counted from ...
        self._next = PlayTotals()  # ... and from when there are enough plies after this
        self._trained_share = share * (1 - run.trainer.held_out_share)

    def training_positions(self, simulations: float, totals: PlayTotals) -> float:
        """Positions to train on that come of so many simulations.

        Args:
            simulations: such as those of a second.
            totals: of the worker so far, never fewer than at the call before; a new one costs what
                the run file says for the end of the run. Kept trees make plies cheaper than that.
        """
        if totals.plies - self._next.plies >= self._enough_plies:
            self._since, self._next = self._next, totals
        plies = totals.plies - self._since.plies
        cost = self._expected
        if plies >= self._enough_plies:
            cost = (totals.simulations - self._since.simulations) / plies
        return simulations / cost * self._trained_share


@dataclass(frozen=True, slots=True)
class _PlayLook:
    """What there was at one moment."""

    seconds: float
    totals: PlayTotals
    waiting: bool
    paused: bool


class Rates:
    """Rates over the last half minute, from totals taken at even distances.

    Args:
        cost: of a ply.
    """

    def __init__(self, cost: PlyCost) -> None:
        self._cost = cost
        self._looks: deque[_PlayLook] = deque()

    def take(
        self, seconds: float, totals: PlayTotals, *, waiting: bool = False, paused: bool = False
    ) -> SelfplayFigures:
        """Take in the totals, and answer the rates up to now; the caller adds the other figures.

        Args:
            seconds: by a clock that never goes back.
            totals: at that time.
            waiting: whether the worker waits for another service ...
            paused: ... and whether that is the trainer, which is behind.
        """
        if not totals.simulations:
            self._looks.clear()  # the time before the first simulation does not count
        self._looks.append(_PlayLook(seconds, totals, waiting, paused))
        while seconds - self._looks[0].seconds > _WINDOW_SECONDS:
            self._looks.popleft()
        since, before = self._looks[0].seconds, self._looks[0].totals
        elapsed = max(seconds - since, 1e-9)
        positions = totals.positions - before.positions
        hits = totals.cache_hits - before.cache_hits
        simulations = (totals.simulations - before.simulations) / elapsed
        return SelfplayFigures(
            games=totals.games,
            resigned_games=totals.resigned_games,
            games_per_hour=(totals.games - before.games) / elapsed * 3600.0,
            positions_per_s=positions / elapsed,
            simulations_per_s=simulations,
            training_positions_per_second=self._cost.training_positions(simulations, totals),
            waiting_share=sum(look.waiting for look in self._looks) / len(self._looks),
            pause_share=sum(look.paused for look in self._looks) / len(self._looks),
            cache_hit_rate=hits / (hits + positions) if hits + positions else 0.0,
        )
