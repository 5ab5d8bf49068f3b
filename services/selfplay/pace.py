"""How fast a worker plays: when it pauses, and its rates for heartbeats.

Play pauses while finished games have no room, or while the trainer is far behind. The trainer's
heartbeat in Redis says how far, every half second. A trainer that is stuck may go on sending it, so
every two seconds Postgres is asked as well: the trainer records its progress there, and the games
since then are counted. While Redis is down, Postgres decides alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from zerofleet_core import SearchConfig, SelfPlay

from zerofleet.config import RunConfig
from zerofleet.database import FinishedGames
from zerofleet.database.finished_games import PositionsAhead
from zerofleet.errors import StoreUnavailableError
from zerofleet.fleet.figures import SelfplayFigures, TrainerFigures
from zerofleet.fleet.heartbeat import BEAT_TTL_SECONDS, Heartbeats
from zerofleet.services.selfplay.game_storage import GameWriter
from zerofleet.waiting import Waits

_LOOK_SECONDS = 0.5
_COUNT_SECONDS = 2.0  # between two questions to Postgres
_ANSWER_SECONDS = 1.0  # for an answer; after it Redis is down, and Postgres' last answer stands
_WINDOW_SECONDS = 30.0
_PLIES_TO_COUNT = 4  # per game: from then on the cost is measured over the worker's own plies


class Pause:
    """Makes each engine loop wait between two batches while play is paused.

    Args:
        writer: play pauses while its spool is full.
        max_ahead_positions: play pauses while the trainer has more positions before it; 0: never.
        waits: told when the trainer is waited for.
    """

    def __init__(self, writer: GameWriter, max_ahead_positions: int, waits: Waits) -> None:
        self._writer = writer
        self._max_ahead = max_ahead_positions
        self._waits = waits
        self._trainer_keeps_up = asyncio.Event()
        self._trainer_keeps_up.set()

    @property
    def watches_trainer(self) -> bool:
        """Whether the run file limits how far the trainer may be behind."""
        return self._max_ahead > 0

    @property
    def waits_for_trainer(self) -> bool:
        """Whether play is paused because the trainer is behind."""
        return not self._trainer_keeps_up.is_set()

    def hear_no_trainer(self) -> None:
        """Pause: no trainer runs, or it has not caught up with the stored games yet."""
        self._begin("the trainer to start")

    def hear_ahead(self, positions: float) -> None:
        """Take in how many positions the trainer has not trained on yet."""
        if positions > self._max_ahead:
            self._begin(f"the trainer, {self._max_ahead} positions behind")
        else:
            self.hear_nothing()

    def hear_nothing(self) -> None:
        """Play on: the trainer keeps up, or no store can tell how far it is."""
        self._trainer_keeps_up.set()
        self._waits.end("pause")

    def _begin(self, thing: str) -> None:
        self._trainer_keeps_up.clear()
        self._waits.begin("pause", thing, "idle")

    async def over(self) -> None:
        """Return when play is not paused, which is normally at once."""
        await self._writer.room()
        await self._trainer_keeps_up.wait()


class TrainerWatch:
    """Tells ``Pause`` how far the trainer is behind, if the run file limits that.

    The larger of two numbers paces play: the one in the trainer's heartbeat, which is newer, and
    Postgres' count, which grows while the trainer is stuck, whatever its heartbeat says.

    Args:
        heartbeats: Redis; may be down, hang, or refuse writes.
        database: Postgres; may be down.
        pause: receives the number of positions.
    """

    def __init__(
        self, run: RunConfig, heartbeats: Heartbeats, database: FinishedGames, pause: Pause
    ) -> None:
        self._run = run.name
        self._trained_share = run.selfplay.full_search_share * (1 - run.trainer.held_out_share)
        self._max_ahead = run.selfplay.max_ahead_positions
        self._heartbeats = heartbeats
        self._database = database
        self._pause = pause
        self._reading: asyncio.Task[TrainerFigures | None] | None = None
        self._counting: asyncio.Task[PositionsAhead] | None = None
        self._counted = 0.0
        self._next_count = 0.0  # by time.monotonic()

    async def watch(self) -> None:
        """Look again and again, until cancelled."""
        while self._pause.watches_trainer:
            await self.look()
            await asyncio.sleep(_LOOK_SECONDS)
        await asyncio.Event().wait()

    async def look(self) -> None:
        """Look once; while a store hangs, several looks await the same answer."""
        trainer, redis_is_up = await self._read_heartbeat()
        if trainer is None:
            await self._ask_postgres(redis_is_up=redis_is_up)
        elif trainer.unspent_positions is None:
            self._pause.hear_no_trainer()
        else:
            await self._count()
            self._pause.hear_ahead(max(trainer.unspent_positions, self._counted))

    async def _read_heartbeat(self) -> tuple[TrainerFigures | None, bool]:
        """Return the trainer's figures, if its heartbeat can be relied on, and if Redis is up."""
        if self._reading is None:
            self._reading = asyncio.create_task(asyncio.to_thread(self._heartbeats.read_trainer))
        reading = self._reading
        await asyncio.wait({reading}, timeout=_ANSWER_SECONDS)
        if reading.done():
            self._reading = None
            with contextlib.suppress(StoreUnavailableError):
                trainer = reading.result()
                # A heartbeat that Redis cannot renew stays for seconds, and then is missing.
                is_up = self._heartbeats.state.status == "up"
                return (trainer if is_up else None), is_up
        return None, False

    async def _count(self) -> None:
        """Have Postgres count what the trainer has not trained on, if it is time."""
        if self._counting is None:
            if time.monotonic() < self._next_count:
                return
            self._next_count = time.monotonic() + _COUNT_SECONDS
            self._counting = asyncio.create_task(self._positions_ahead())
        counting = self._counting
        await asyncio.wait({counting}, timeout=_ANSWER_SECONDS)
        if counting.done():
            self._counting = None
            self._counted = 0.0  # unless Postgres knows better
            with contextlib.suppress(StoreUnavailableError):
                ahead = counting.result()
                if ahead.age_seconds is not None:
                    self._counted = ahead.unread_positions

    async def _positions_ahead(self) -> PositionsAhead:
        return await asyncio.to_thread(
            self._database.positions_ahead, self._run, self._trained_share, self._max_ahead
        )

    async def _ask_postgres(self, *, redis_is_up: bool) -> None:
        """Read from Postgres how far the trainer is; if Redis is up, also whether it is down."""
        try:
            ahead = await self._positions_ahead()
        except StoreUnavailableError:
            self._pause.hear_nothing()  # the spool of finished games bounds what is played
            return
        is_recent = ahead.age_seconds is not None and ahead.age_seconds < BEAT_TTL_SECONDS
        if redis_is_up and not is_recent:
            self._pause.hear_no_trainer()
        else:
            self._pause.hear_ahead(ahead.positions)


@dataclass(frozen=True, slots=True)
class PlayTotals:
    """Counts since the worker's start, over all its engines."""

    games: int = 0
    resigned_games: int = 0
    """Games that a player resigned, included in ``games``."""
    plies: int = 0
    positions: int = 0
    """Positions that the network predicted."""
    simulations: int = 0
    cache_hits: int = 0

    @classmethod
    def of(cls, engines: Iterable[SelfPlay]) -> PlayTotals:
        """Sum the engines' statistics."""
        statistics = [engine.statistics for engine in engines]
        return cls(
            games=sum(each.games_finished for each in statistics),
            resigned_games=sum(each.games_resigned for each in statistics),
            plies=sum(each.plies for each in statistics),
            positions=sum(each.positions_evaluated for each in statistics),
            simulations=sum(each.simulations for each in statistics),
            cache_hits=sum(each.cache_hits for each in statistics),
        )


class PlyCost:
    """Simulations per ply, which turn a rate of simulations into one of positions to train on.

    A worker's games begin together, so its plies come in waves: none for minutes, then hundreds.
    Simulations come evenly. The cost is measured over the newest plies, enough for all games to
    have played some, because it changes while simulations grow over a run.
    """

    def __init__(self, run: RunConfig, search: SearchConfig) -> None:
        play, share = run.selfplay, search.full_search_share
        fast = search.simulations_of_fast_search
        self._expected = share * search.num_simulations + (1 - share) * fast
        self._enough_plies = _PLIES_TO_COUNT * play.engines * play.games_per_engine
        self._since = PlayTotals()  # totals from which the cost is counted ...
        self._next = PlayTotals()  # ... and from which it will be, once enough plies follow
        self._trained_share = share * (1 - run.trainer.held_out_share)

    def training_positions(self, simulations: float, totals: PlayTotals) -> float:
        """Return the number of positions to train on that this many simulations produce.

        Args:
            simulations: a number, or a rate.
            totals: counts of the worker so far; they never fall from one call to the next. A new
                worker uses the cost that the run file implies for the end of the run; kept trees
                make plies cheaper.
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
    """Totals and waits at one moment."""

    seconds: float
    totals: PlayTotals
    waiting: bool
    paused: bool


class Rates:
    """Rates over the last half minute, from totals taken at regular intervals."""

    def __init__(self, cost: PlyCost) -> None:
        self._cost = cost
        self._looks: deque[_PlayLook] = deque()

    def take(
        self, seconds: float, totals: PlayTotals, *, waiting: bool = False, paused: bool = False
    ) -> SelfplayFigures:
        """Take in the totals, and return the rates up to now; the caller adds the other figures.

        Args:
            seconds: time by a monotonic clock.
            totals: counts at that time.
            waiting: whether the worker waits for another service.
            paused: whether it waits for the trainer, which is behind.
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
            positions_per_second=positions / elapsed,
            simulations_per_second=simulations,
            training_positions_per_second=self._cost.training_positions(simulations, totals),
            waiting_share=sum(look.waiting for look in self._looks) / len(self._looks),
            pause_share=sum(look.paused for look in self._looks) / len(self._looks),
            cache_hit_rate=hits / (hits + positions) if hits + positions else 0.0,
        )
