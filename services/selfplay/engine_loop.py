"""One engine at play: select, predict, backup; finished games are written, others saved."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from zerofleet_core import SelfPlay

from zerofleet.database import Submission
from zerofleet.prediction import Predictor
from zerofleet.records import GameRecord
from zerofleet.services.selfplay.games_in_play import GamesInPlay
from zerofleet.services.selfplay.pause import Pause
from zerofleet.services.selfplay.unfinished_games import UnfinishedGames
from zerofleet.services.selfplay.writer import GameWriter


class EngineLoop:
    """Plays one engine's games while the batches of the worker's other engine loops are away.

    Args:
        engine: plays many games at once; its calls take milliseconds and run in the event loop.
        in_play: its games, with their uids and epochs.
        predictor: asks again by itself, so its errors are final.
        writer: takes finished games.
        unfinished: keeps those that are not finished.
        save_every_plies: a crash loses fewer plies of a game than this while Postgres answers; 2
            at most of those with 1 or 2.
    """

    def __init__(
        self,
        engine: SelfPlay,
        in_play: GamesInPlay,
        predictor: Predictor,
        writer: GameWriter,
        unfinished: UnfinishedGames,
        save_every_plies: int,
    ) -> None:
        self.engine = engine
        self.in_play = in_play
        self.resigned_games = 0
        """Games that a player gave up, of those that this engine finished."""
        self._predictor = predictor
        self._writer = writer
        self._unfinished = unfinished
        # Of a game between two looks: those of a `select`, and one of a `backup`.
        self._plies_at_once = max(1, save_every_plies // 4) + 1
        engine.set_plies_per_select(self._plies_at_once - 1)
        self._save_every = save_every_plies
        self._plies_apart = in_play.slots * save_every_plies // 64  # of saves that could wait
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
        for game in self.engine.take_finished():
            self.resigned_games += game.reason == "resign"
            finished = self.in_play.finish(game, now)
            if finished is not None:
                record, epoch = finished
                self._writer.put(Submission(record=record, epoch=epoch))
        self.in_play.begin(now)

    async def adopt(self, adopted: Sequence[tuple[GameRecord, int]]) -> None:
        """Go on with other workers' games as soon as slots are free.

        One that does not replay is put aside, so that no worker adopts it again.
        """
        for record, epoch in adopted:
            try:
                game_id = self.engine.adopt(record.columns)
            except ValueError as error:
                await self._unfinished.reject(record, epoch, str(error))
            else:
                self.in_play.adopt(game_id, record, epoch)

    async def save_all(self) -> bool:
        """Save every unfinished game of at least one ply; False when Postgres does not answer."""
        await self.settled()
        games = self.engine.unfinished()
        return await self._unfinished.save(
            self.in_play, [game for game in games if self.in_play.unsaved_plies(game) > 0]
        )

    async def settled(self) -> None:
        """Return when the save that is under way has ended, however."""
        if self._saving is not None:
            await asyncio.wait([self._saving])

    async def _save_lagging(self) -> None:
        """Save games with half of ``save_every_plies`` unsaved, in the background.

        The other half is room for the plies played until the save is committed; where that room
        gets short, play waits for the commit, so that a game which ends before it is saved is
        short of ``save_every_plies``.
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
