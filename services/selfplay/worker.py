"""The self-play worker: its engine loops, leases, v_resign and heartbeat, and how it leaves."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import structlog
from zerofleet_core import SelfPlay

from zerofleet.config import RunConfig, SelfplaySection
from zerofleet.database import ResignThreshold, SelfplayDatabase, StoredRestarts, Submission
from zerofleet.errors import StoreUnavailableError
from zerofleet.fleet.figures import SelfplayFigures
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.prediction import Predictor
from zerofleet.records import GameRecord
from zerofleet.search_configs import selfplay_search
from zerofleet.service import Pulse, beat, first_of, tell_lost_games
from zerofleet.services.selfplay.game_storage import (
    AuditFile,
    GamesInPlay,
    GameWriter,
    UnfinishedGames,
)
from zerofleet.services.selfplay.pace import Pause, PlayTotals, PlyCost, Rates, TrainerWatch
from zerofleet.services.selfplay.settings import SelfplaySettings
from zerofleet.waiting import FIRST_MODEL, Backoff, PatientPredictor, Waits

_log = structlog.get_logger()

_LEAVE_SECONDS = 8.0  # a preempted machine may give no more than ten
_RELEASE_SECONDS = 1.0
_RESTARTS_SECONDS = 60.0
_UNSAVED = (
    "no finished game was lost; unfinished games that were not saved resume from their last save"
)


class Worker:
    """Plays until told to stop; keeps its games however it ends.

    Postgres, Redis and the predictor may be down at any time.
    """

    def __init__(
        self,
        run: RunConfig,
        settings: SelfplaySettings,
        database: SelfplayDatabase,
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
        search = selfplay_search(run)
        self.loops: list[EngineLoop] = []
        for number, seed in zip(range(play.engines), settings.seeds(run.seed), strict=False):
            engine = SelfPlay(run.game.name, play.games_per_engine, search, seed)
            in_play = GamesInPlay(run.game.name)
            patient = PatientPredictor(
                predictor, self.waits, f"engine {number}", FIRST_MODEL, "idle"
            )
            self.loops.append(
                EngineLoop(engine, in_play, patient, self.writer, self.unfinished, play)
            )
        self.resignation = ResignThresholdReader(
            run, database, [loop.engine for loop in self.loops]
        )
        self.restarts = RestartReader(run, database, [loop.engine for loop in self.loops])
        self.figures = SelfplayFigures()
        """Figures of the last heartbeat."""
        self._rates = Rates(PlyCost(run, search))
        self._registered = False

    async def run(self, stop: asyncio.Event, *tasks: Coroutine[Any, Any, object]) -> None:
        """Play until ``stop`` is set; then keep everything and return within seconds.

        Args:
            stop: ends the play.
            tasks: further tasks; if one fails, the worker stops and keeps the games all the same.

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
                *tasks,
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
        await self.restarts.read()
        _log.info(
            "playing",
            worker=self._name,
            run=self._run.name,
            engines=len(self.loops),
            games_per_engine=self._run.selfplay.games_per_engine,
        )
        loops = (loop.play(self._pause) for loop in self.loops)
        await first_of(*loops, self._keep_leases(), self.resignation.watch(), self.restarts.watch())

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
        """Store finished games, save unfinished ones, and release the leases."""
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
                # a failure of one does not stop the other
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
            room = slots - loop.in_play.adopted
            while adopted := await self.unfinished.adopt(room):
                room -= len(adopted)
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
        """Return the state for the heartbeat; progress is the number of simulations."""
        totals = self.totals()
        self.figures = replace(
            self._rates.take(
                time.monotonic(),
                totals,
                waiting=bool(self.waits),
                paused=self._pause.waits_for_trainer,
            ),
            spool=self.writer.spooled,
            conflicts=self.writer.answers["conflict"],
            resign_threshold=self.resignation.threshold,
        )
        return Pulse(totals.simulations, str(self.waits), self.figures, self.waits.status)

    def totals(self) -> PlayTotals:
        """Counts since the start, over all engines."""
        return PlayTotals.of(loop.engine for loop in self.loops)


async def outlasting(task: asyncio.Task[None]) -> None:
    """Wait for a task; cancelling the wait does not cancel the task."""
    await asyncio.shield(task)


class EngineLoop:
    """Plays one engine's games: select, predict, backup.

    While its batch is at the inference service, the worker's other engine loops play.

    Args:
        engine: plays many games at once; its calls take milliseconds and run in the event loop.
        in_play: uids and epochs of its games.
        predictor: retries by itself, so its errors are final.
        writer: stores finished games.
        unfinished: saves games that are not finished.
        section: how many games the engine plays, and how often they are saved. While Postgres is
            up, a crash loses fewer than ``save_every_plies`` per game (at most 2 if it is 1 or 2).
    """

    def __init__(
        self,
        engine: SelfPlay,
        in_play: GamesInPlay,
        predictor: Predictor,
        writer: GameWriter,
        unfinished: UnfinishedGames,
        section: SelfplaySection,
    ) -> None:
        self.engine = engine
        self.in_play = in_play

        self._predictor = predictor
        self._writer = writer
        self._unfinished = unfinished
        self._save_every = section.save_every_plies
        # Most plies of one game between two checks: the plies of one `select`, one of a `backup`.
        self._plies_at_once = max(1, self._save_every // 4) + 1
        engine.set_plies_per_select(self._plies_at_once - 1)
        # Plies between two saves that could wait.
        self._plies_apart = section.games_per_engine * self._save_every // 64
        self._plies_at_save = 0
        self._looked_at_ply = 0
        self._saving: asyncio.Task[bool] | None = None

    async def play(self, pause: Pause) -> None:
        """Play until cancelled."""
        while True:
            await pause.over()
            observations = self.engine.select()
            self.collect()
            if len(observations) > 0:
                prediction = await self._predictor.predict(observations)
                self.engine.backup(
                    prediction.policy_logits, prediction.value, prediction.model_version
                )
            else:
                await asyncio.sleep(0)  # all came from the cache: let other engines run
            plies = self.engine.statistics.plies
            if plies != self._looked_at_ply:
                self._looked_at_ply = plies
                await self._save_lagging()

    def collect(self) -> None:
        """Hand finished games to the writer."""
        now = _now()
        self.in_play.begin(self.engine.take_begun(), now)
        for game in self.engine.take_finished():
            finished = self.in_play.finish(game, now)
            if finished is not None:
                record, epoch = finished
                self._writer.put(Submission(record=record, epoch=epoch))

    async def adopt(self, adopted: Sequence[tuple[GameRecord, int]]) -> None:
        """Resume other workers' games as soon as slots are free.

        A game that does not replay is set aside, so that no worker adopts it again.
        """
        for record, epoch in adopted:
            try:
                game_id = self.engine.adopt(record.columns)
            except ValueError as error:
                await self._unfinished.reject(record, epoch, str(error))
            else:
                self.in_play.adopt(game_id, record, epoch)

    async def save_all(self) -> bool:
        """Save every game with unsaved plies; return False if Postgres does not answer."""
        await self.settled()
        games = self.engine.unfinished()
        return await self._unfinished.save(
            self.in_play, [game for game in games if self.in_play.unsaved_plies(game) > 0]
        )

    async def settled(self) -> None:
        """Return when the save that is under way has ended, even if it failed."""
        if self._saving is not None:
            await asyncio.wait([self._saving])

    async def _save_lagging(self) -> None:
        """Save games with half of ``save_every_plies`` unsaved, in the background.

        The other half is room for the plies played until the save is committed. If that room gets
        short, play waits for the commit, so that a crash loses fewer than ``save_every_plies``.
        """
        if self._saving is not None and self._saving.done():
            self._saving.result()  # an unforeseen error ends the worker
            self._saving = None
        most = self.in_play.most_unsaved(self.engine.plies_in_play())
        due = max(1, self._save_every // 2)
        if most < due:
            return
        must_wait = most + self._plies_at_once >= self._save_every
        if not must_wait and self._looked_at_ply - self._plies_at_save < self._plies_apart:
            return
        if self._saving is not None:
            if must_wait and self._unfinished.reachable:
                await asyncio.wait([self._saving])
                await self._save_lagging()
            return
        self._plies_at_save = self._looked_at_ply
        lagging = [
            game for game in self.engine.unfinished() if self.in_play.unsaved_plies(game) >= due
        ]
        self._saving = asyncio.create_task(self._unfinished.save(self.in_play, lagging))
        if must_wait and self._unfinished.reachable:
            await asyncio.wait([self._saving])


def _now() -> datetime:
    return datetime.now(UTC)


class RestartReader:
    """Reads from Postgres the positions at which games restart, and sets them in the engines.

    Does nothing if ``selfplay.restart_share`` is 0.
    """

    def __init__(
        self, run: RunConfig, database: StoredRestarts, engines: Sequence[SelfPlay]
    ) -> None:
        self._run = run.name
        self._share = run.selfplay.restart_share
        self._database = database
        self._engines = engines
        self._positions: list[list[int]] = []

    async def read(self) -> None:
        """Read and set the positions; while Postgres is down, keep the last ones."""
        if not self._share:
            return
        try:
            positions = await asyncio.to_thread(self._database.restarts, self._run)
            if positions == self._positions:
                return
            for engine in self._engines:
                engine.set_restarts(positions, self._share)
        except StoreUnavailableError:
            return  # the parts that wait for Postgres report that it is down
        # Positions of other rules, during an upgrade; or a row that was changed by hand.
        except (KeyError, TypeError, ValueError) as error:
            _log.warning("game_restarts_refused", reason=repr(error))
        else:
            _log.info("game_restarts", positions=len(positions), before=len(self._positions))
            self._positions = positions

    async def watch(self) -> None:
        """Read again and again, until cancelled."""
        while True:
            await asyncio.sleep(_RESTARTS_SECONDS)
            await self.read()


class ResignThresholdReader:
    """Reads v_resign from Postgres, and sets it for games that begin from then on.

    A share of the games ignores it from the start: v_resign is computed from them. The engines of a
    run without resignation are left alone.
    """

    def __init__(
        self, run: RunConfig, database: ResignThreshold, engines: Sequence[SelfPlay]
    ) -> None:
        self._run = run.name
        self._settings = run.resign
        self._database = database
        self._engines = engines
        self.threshold: float | None = None
        """Value below which games that begin now are resigned; None: no player resigns."""
        if self._settings.enabled:
            self._set(None)

    async def read(self) -> None:
        """Take over the threshold from Postgres; while it is down, keep the last one."""
        if not self._settings.enabled:
            return
        try:
            threshold = await asyncio.to_thread(self._database.last_v_resign, self._run)
        except StoreUnavailableError:
            return  # the parts that wait for Postgres report that it is down
        if threshold != self.threshold:
            _log.info("resign_threshold", threshold=threshold, before=self.threshold)
            self._set(threshold)

    async def watch(self) -> None:
        """Read again and again, until cancelled."""
        while True:
            await asyncio.sleep(self._settings.every_seconds)
            await self.read()

    def _set(self, threshold: float | None) -> None:
        for engine in self._engines:
            engine.set_resignation(threshold, self._settings.play_on_share)
        self.threshold = threshold
