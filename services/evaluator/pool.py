"""The rating pool: promoted models against earlier ones and fixed anchors, while nothing waits."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack

import structlog

from services.evaluator.anchors import why_absent
from services.evaluator.bout import Bout, Finished, Hall
from services.evaluator.office import Office
from services.evaluator.pairings import Pairing
from services.evaluator.pausing import PausingPredictor
from services.evaluator.programme import Due, DueBout, Programme
from services.evaluator.rating import Result, rate
from services.evaluator.referee import Referee
from services.evaluator.together import together
from zerofleet.database import RatingGame
from zerofleet.errors import IncompatibleModelError, RecordRejectedError
from zerofleet.gtp.client import EngineGoneError
from zerofleet.gtp.protocol import GtpError

_log = structlog.get_logger()

_NETWORKS_AT_ONCE = 3  # opponents; more models than inference keeps would push each other out


class RatingPool:
    """Plays the rating games that a run lacks, and rates everybody from all games stored.

    A game is a row as soon as it is over, and what to play follows from the rows, so another
    evaluator, or the next life of this one, goes on.

    Args:
        office: of this evaluator.
        referee: opens streams to models.
        go: cleared while games in play have to wait.
    """

    def __init__(self, office: Office, referee: Referee, go: asyncio.Event) -> None:
        self._office = office
        self._referee = referee
        self._go = go
        self._programme = Programme(office.run)
        self._networks = asyncio.Semaphore(_NETWORKS_AT_ONCE)
        self._thinking = asyncio.Semaphore(os.cpu_count() or 1)
        self._rating = asyncio.Lock()
        self._rated: list[Result] | None = None  # what the stored ratings are of
        self._absent: set[str] = set()
        self.games_played = 0
        self.at_play = False
        self._figures: dict[str, float] = {}

    @property
    def figures(self) -> dict[str, float]:
        """Of the model that was rated last, and of all."""
        return {**self._figures, "rating_in_play": float(self.at_play)}

    async def play_some(self) -> bool:
        """Play what one model lacks, against all its opponents at once; see ``Duty``."""
        office = self._office
        if office.run.rating.games == 0:
            return False
        chain = await office.ask(office.database.promotions, office.run.name)
        versions = [promotion.version for promotion in reversed(chain)]
        anchors = self._present(office.run.rating.anchors)
        if not self._programme.may_lack(versions, anchors):
            return False
        stored = await office.ask(office.database.rating_places, office.run.name)
        self._figures["rating_games"] = float(len(stored))
        due = self._programme.next(versions, anchors, stored)
        if due is None:
            return False
        self._figures |= {
            "rating_player": float(due.player),
            "rating_player_games": float(due.stored),
            "rating_player_most_games": float(due.games),
        }
        self.at_play = True
        try:
            await self._play(due)
        finally:
            self.at_play = False
        return True

    async def rate(self) -> None:
        """Rate everybody who played, from all games stored; nothing to do without new ones."""
        async with self._rating:  # a rating from fewer games never replaces one from more
            ask, database, name = self._office.ask, self._office.database, self._office.run.name
            results = [
                Result(each.player, each.opponent, each.wins, each.draws, each.losses)
                for each in await ask(database.player_results, name)
            ]
            if results == self._rated:
                return
            # In a thread: of a thousand players this takes seconds.
            ratings = await asyncio.to_thread(rate, results)
            models = [(int(r.player), r.elo, r.error) for r in ratings if r.player.isdecimal()]
            anchors = [(r.player, r.elo, r.error) for r in ratings if not r.player.isdecimal()]
            await ask(database.upsert_ratings, name, models)
            await ask(database.upsert_anchor_ratings, name, anchors)
            self._rated = results

    def _present(self, anchors: Sequence[str]) -> list[str]:
        reasons = {name: why_absent(name, self._office.run.game.name) for name in anchors}
        for name, reason in reasons.items():
            if reason is not None and name not in self._absent:
                self._absent.add(name)
                _log.warning("anchor_left_out", anchor=name, reason=reason)
        return [name for name, reason in reasons.items() if reason is None]

    async def _play(self, due: Due) -> None:
        """Play a model's pairings together, over one stream to each model."""
        _log.info(
            "rating",
            player=due.player,
            opponents=[each.pairing.opponent for each in due.bouts],
            games=sum(len(each.places) for each in due.bouts),
        )
        models = {name for each in due.bouts for name in each.pairing.models}
        try:
            async with AsyncExitStack() as streams:
                predictors = {
                    name: PausingPredictor(
                        await self._referee.predictor(streams, int(name)), self._go
                    )
                    for name in sorted(models)
                }
                hall = Hall(predictors, self._go, self._thinking)
                await together(*(self._play_pairing(each, hall) for each in due.bouts))
        finally:
            for name in models:
                self._office.waits.end(f"version {name}")

    async def _play_pairing(self, due: DueBout, hall: Hall) -> None:
        """Play some of a pairing's games; one that cannot play is left out from now on."""
        pairing = due.pairing

        async def keep(games: Sequence[Finished]) -> None:
            await self._store(pairing, games)

        async with AsyncExitStack() as turn:
            if pairing.opponent in hall.predictors:
                await turn.enter_async_context(self._networks)
            try:
                await Bout(self._office.run, pairing, due.openings, hall).play(due.places, keep)
            except (
                IncompatibleModelError,
                RecordRejectedError,
                EngineGoneError,
                GtpError,
            ) as error:
                self._programme.leave_out(pairing)
                _log.error(
                    "pairing_left_out",
                    player=pairing.player,
                    opponent=pairing.opponent,
                    reason=str(error),
                )
        await self.rate()

    async def _store(self, pairing: Pairing, games: Sequence[Finished]) -> None:
        rows: list[RatingGame] = []
        for game in games:
            opening, color = game.place
            first, second = pairing.sides(color)
            rows.append(RatingGame((first, second, opening), game.record, game.remark))
            if game.remark is not None:
                _log.warning("forfeit", first=first, second=second, reason=game.remark)
        office = self._office
        await office.ask(
            office.database.record_rating_games,
            office.run.name,
            office.worker,
            rows,
            epoch=office.epoch,
        )
        self.games_played += len(rows)
        for name in ("rating_games", "rating_player_games"):
            self._figures[name] += len(rows)
