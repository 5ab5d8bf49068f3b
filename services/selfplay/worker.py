"""The self-play worker: its engine loops, leases and heartbeat, and how it leaves."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any
from uuid import UUID

import structlog
from zerofleet_core import SearchConfig, SelfPlay

from zerofleet.config import RunConfig
from zerofleet.database import Database
from zerofleet.errors import StoreUnavailableError
from zerofleet.fleet.figures import SelfplayFigures
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.prediction import Predictor
from zerofleet.records import GameRecord
from zerofleet.service import Pulse, beat, first_of, tell_lost_games
from zerofleet.services.selfplay.engine_loop import EngineLoop
from zerofleet.services.selfplay.games_in_play import GamesInPlay
from zerofleet.services.selfplay.pause import Pause, TrainerWatch
from zerofleet.services.selfplay.rates import PlayTotals, PlyCost, Rates
from zerofleet.services.selfplay.resign_threshold_reader import ResignThresholdReader
from zerofleet.services.selfplay.settings import SelfplaySettings
from zerofleet.services.selfplay.unfinished_games import UnfinishedGames
from zerofleet.services.selfplay.writer import AuditFile, GameWriter
from zerofleet.waiting import FIRST_MODEL, Backoff, PatientPredictor, Waits

_log = structlog.get_logger()

_LEAVE_SECONDS = 8.0  # a preempted machine may give no more than ten
_RELEASE_SECONDS = 1.0
_UNSAVED = (
    "no finished game was lost; unfinished games that were not saved resume from their last save"
)


class Worker:
    """Plays until told to stop; keeps what it played however it ends.

    Args:
        run: the run.
        settings: of this process.
        database: Postgres; may be away.
        heartbeats: Redis; may be away.
        predictor: the best model's predictions; may be away.
    """

    def __init__(
        self,
        run: RunConfig,
        settings: SelfplaySettings,
        database: Database,
        heartbeats: Heartbeats,
        predictor: Predictor,
    ) -> None:
        name, play = settings.worker_name, run.selfplay
        self._run = run
        self._name = name
        self._database = database
        self._heartbeats = heartbeats
        self.waits = Waits()
        audit = AuditFile(settings.selfplay_audit) if settings.selfplay_audit else None
        self.writer = GameWriter(
            database, run.name, name, play.spool_games, self.waits, self._settled, audit
        )
        self.unfinished = UnfinishedGames(database, run.name, name, play.lease_seconds, self.waits)
        self._pause = Pause(self.writer, play.max_ahead_positions, self.waits)
        self._trainer_watch = TrainerWatch(run, heartbeats, database, self._pause)
        search = SearchConfig(**run.search.model_dump())
        self.loops: list[EngineLoop] = []
        for number, seed in zip(range(play.engines), settings.seeds(run.seed), strict=False):
            engine = SelfPlay(run.game.name, play.games_per_engine, search, seed)
            in_play = GamesInPlay(run.game.name, play.games_per_engine)
            patient = PatientPredictor(
                predictor, self.waits, f"engine {number}", FIRST_MODEL, "idle"
            )
            self.loops.append(
                EngineLoop(
                    engine, in_play, patient, self.writer, self.unfinished, play.save_every_plies
                )
            )
        self.resignation = ResignThresholdReader(
            run, database, [loop.engine for loop in self.loops]
        )
        self.figures = SelfplayFigures()
        """Of the last heartbeat."""
        self._rates = Rates(PlyCost(run))
        self._registered = False

    async def run(self, stop: asyncio.Event, *beside: Coroutine[Any, Any, object]) -> None:
        """Play until ``stop`` is set; then keep everything and return within seconds.

        Args:
            stop: ends the play.
            beside: what must go on meanwhile; should it fail, the games are kept all the same.

        Raises:
            ConfigError: the run is stored with another game, or this role may not write to it.
        """
        writing = asyncio.create_task(self.writer.run())
        try:
            await first_of(
                stop.wait(),
                self._live(),
                beat(self._heartbeats, self._name, self.pulse),
                self._trainer_watch.watch(),
                outlasting(writing),
                *beside,
            )
        except Exception as error:
            if not self._registered or writing.done():  # there is nothing to keep, or no way to
                writing.cancel()
                if self.writer.spooled:
                    tell_lost_games(self.writer.spooled)
            else:  # the games that were played are kept, whatever the error
                _log.error("leaving_after_error", error=repr(error))
                try:
                    await self._leave(writing)
                except Exception as another:
                    _log.error("left_with_error", error=repr(another))
            raise
        except BaseException:
            writing.cancel()
            raise
        await self._leave(writing)

    async def _live(self) -> None:
        """Wait for the stores, take over what was left behind, play until cancelled."""
        await self._register()
        self._registered = True
        await self.unfinished.release()  # a worker of this name may have been killed
        await self._adopt()
        await self.resignation.read()
        _log.info("playing", worker=self._name, run=self._run.name, engines=len(self.loops))
        loops = (loop.play(self._pause) for loop in self.loops)
        await first_of(*loops, self._keep_leases(), self.resignation.watch())

    async def _register(self) -> None:
        try:
            await asyncio.to_thread(self._database.wait_ready, 0.0)
            await asyncio.to_thread(self._database.require_run, self._run)
        except StoreUnavailableError:
            await self.waits.ask_store(self._database.wait_ready, 1.0)
            await self.waits.ask_store(self._database.require_run, self._run)
            self.unfinished.hold_back()
        ahead = await self.waits.ask_store(self._database.clock_ahead)
        for loop in self.loops:
            loop.in_play.clock_ahead = ahead

    async def _leave(self, writing: asyncio.Task[None]) -> None:
        """Store what is finished, save what is not, let go of the leases."""
        try:
            for loop in self.loops:
                loop.collect()
        finally:
            self.writer.close()
            _log.info("leaving", finished_games_to_store=self.writer.spooled)
            await self._keep(writing)
        _log.info("left", stored=self.writer.answers["stored"])

    async def _keep(self, writing: asyncio.Task[None]) -> None:
        results: tuple[BaseException | None, ...] = ()
        is_late = False
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                # One that fails does not take the other with it.
                results = await asyncio.gather(
                    self._store_finished(writing), self._save_unfinished(), return_exceptions=True
                )
                # Last: a game that another worker adopts before it is stored would be refused.
                backoff = Backoff(most=1.0)
                while not await self.unfinished.release():
                    await backoff.sleep()
        except TimeoutError:
            is_late = True
        lost = self.writer.spooled
        if lost:
            _log.error("left_without_postgres", finished_games_lost=lost)
            tell_lost_games(lost)
        if is_late:
            if not lost:
                _log.warning("left_before_all_was_saved", seconds=_LEAVE_SECONDS, reason=_UNSAVED)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RELEASE_SECONDS):
                    await self.unfinished.release()
        for result in results:
            if result is not None:
                raise result

    async def _store_finished(self, writing: asyncio.Task[None]) -> None:
        """Wait until Postgres has answered for all finished games, and say that none is lost.

        Saying so at once matters: the process may be killed while it saves the unfinished games.
        """
        await writing
        tell_lost_games(0)

    async def _save_unfinished(self) -> None:
        backoff = Backoff(most=1.0)
        while not all([await loop.save_all() for loop in self.loops]):
            await backoff.sleep()

    async def _settled(self) -> None:
        """Return when every save of unfinished games that is under way has ended."""
        for loop in self.loops:
            await loop.settled()

    async def _adopt(self) -> None:
        """Share out expired games among the engine loops, no more than their slots."""
        slots = self._run.selfplay.games_per_engine
        for loop in self.loops:
            adopted = await self.unfinished.adopt(slots - loop.in_play.adopted)
            # If this process was stopped for long, some of them may be its own.
            await loop.adopt([each for each in adopted if not self._renew(*each)])

    def _renew(self, record: GameRecord, epoch: int) -> bool:
        return any(loop.in_play.renew(record.game_uid, epoch) for loop in self.loops)

    async def _keep_leases(self) -> None:
        """Extend the leases while there is progress, and look for expired ones."""
        simulations = -1
        while True:
            # Not plies: a single one may take longer than a lease lasts.
            done = self.totals().simulations
            # A worker without progress that waits for nothing it knows of is stuck: its leases run
            # out, and other workers adopt its games.
            if done != simulations or self.waits:
                await self.unfinished.extend(self._held())
            simulations = done
            # After the extension: a process that was stopped for long would adopt its own.
            await self._adopt()
            await asyncio.sleep(self._run.selfplay.lease_seconds / 3)

    def _held(self) -> list[UUID]:
        """The games that this worker plays, or has finished and not stored yet."""
        return [uid for loop in self.loops for uid in loop.in_play.held] + self.writer.held

    def pulse(self) -> Pulse[SelfplayFigures]:
        """For the heartbeat; progress is the simulations run."""
        totals = self.totals()
        self.figures = replace(
            self._rates.take(
                time.monotonic(), totals, waiting=bool(self.waits), paused=self._pause.goes_on
            ),
            spool=self.writer.spooled,
            conflicts=self.writer.answers["conflict"],
            resign_threshold=self.resignation.threshold,
        )
        return Pulse(totals.simulations, str(self.waits), self.figures, self.waits.status)

    def totals(self) -> PlayTotals:
        """Counts since the start, over all engines."""
        return PlayTotals.of(self.loops)


async def outlasting(task: asyncio.Task[None]) -> None:
    """Wait for a task; cancelling the wait does not cancel the task."""
    await asyncio.shield(task)
