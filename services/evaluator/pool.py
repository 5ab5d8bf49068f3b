"""The rating pool: promoted models against earlier ones and fixed anchors, in spare time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import structlog

from zerofleet.database import MatchGame
from zerofleet.errors import IncompatibleModelError, RecordRejectedError
from zerofleet.gtp.client import EngineGoneError
from zerofleet.gtp.protocol import GtpError
from zerofleet.match.anchors import why_absent
from zerofleet.match.play_match import MatchPlayer, PairQueue, play_match, together
from zerofleet.search_configs import match_search
from zerofleet.services.evaluator.context import EvaluatorContext
from zerofleet.services.evaluator.pairings import DueGames, MissingGames, PairingQueue
from zerofleet.services.evaluator.players import Players
from zerofleet.services.evaluator.rating import Result, rate

_log = structlog.get_logger()

_NETWORKS_AT_ONCE = 3  # opponents; more models than inference keeps would push each other out

CANNOT_PLAY = (IncompatibleModelError, RecordRejectedError, EngineGoneError, GtpError)
"""Errors of a player that cannot play, here or at all."""


class RatingPool:
    """Plays the rating games that a run lacks, and rates all players from all games stored.

    A game is a row as soon as it is over, and what to play follows from the rows, so another
    evaluator, or this one after a restart, goes on.

    Args:
        context: of this evaluator.
        players: by their names.
        go: cleared while games in play have to wait.
    """

    def __init__(self, context: EvaluatorContext, players: Players, go: asyncio.Event) -> None:
        self.context = context
        self._players = players
        self._go = go
        self._queue = PairingQueue(context.run)
        self._search = match_search(context.run.search, context.run.rating.num_simulations)
        self._networks = asyncio.Semaphore(_NETWORKS_AT_ONCE)
        self._rating = asyncio.Lock()
        self._rated: list[Result] | None = None  # what the stored ratings are of
        self._absent: set[str] = set()
        self._figures = context.figures

    @property
    def in_play(self) -> bool:
        """See ``SpareGames``."""
        return self._figures.rating_in_play

    async def play_some(self) -> bool:
        """Play what one model lacks, against all its opponents at once; see ``SpareGames``."""
        context = self.context
        if context.run.rating.games == 0:
            return False
        chain = await context.ask(context.database.promotions, context.run.name)
        versions = [promotion.version for promotion in reversed(chain)]
        anchors = self._present(context.run.rating.anchors)
        if not self._queue.may_lack(versions, anchors):
            return False
        stored = await context.ask(context.database.rating_places, context.run.name)
        self._figures.rating_games = len(stored)
        due = self._queue.next(versions, anchors, stored)
        if due is None:
            return False
        self._figures.rating_player = int(due.player)
        self._figures.rating_player_games = due.stored
        self._figures.rating_player_most_games = due.games
        self._figures.rating_in_play = True
        try:
            await self._play(due)
        finally:
            self._figures.rating_in_play = False
        return True

    async def rate(self) -> None:
        """Rate all players from all stored games, if there are new ones."""
        async with self._rating:  # a rating from fewer games never replaces one from more
            ask, database, name = self.context.ask, self.context.database, self.context.run.name
            results = [
                Result(each.player, each.opponent, each.wins, each.draws, each.losses)
                for each in await ask(database.player_results, name)
            ]
            if results == self._rated:
                return
            # In a thread: of a thousand players this takes seconds.
            ratings = await asyncio.to_thread(rate, results)
            await ask(database.upsert_ratings, name, [(r.player, r.elo, r.error) for r in ratings])
            self._rated = results

    def _present(self, anchors: Sequence[str]) -> list[str]:
        reasons = {name: why_absent(name, self.context.run.game.name) for name in anchors}
        for name, reason in reasons.items():
            if reason is not None and name not in self._absent:
                self._absent.add(name)
                _log.warning("anchor_left_out", anchor=name, reason=reason)
        return [name for name, reason in reasons.items() if reason is None]

    async def _play(self, due: DueGames) -> None:
        """Play a model's pairings together, over one stream to each model."""
        _log.info(
            "rating",
            player=due.player,
            opponents=[each.pairing.opponent for each in due.pairings],
            games=sum(len(each.places) for each in due.pairings),
        )
        async with AsyncExitStack() as streams:
            player = await self._players.player(streams, due.player, self._search, 0)
            await together(*(self._play_pairing(each, player) for each in due.pairings))

    async def _play_pairing(self, missing: MissingGames, player: MatchPlayer) -> None:
        """Play some of a pairing's games; one that cannot play is left out from now on."""
        pairing, run = missing.pairing, self.context.run
        async with AsyncExitStack() as streams:
            if pairing.opponent.isdecimal():
                await streams.enter_async_context(self._networks)
            try:
                opponent = await self._players.player(
                    streams, pairing.opponent, self._search, missing.seed
                )
                match_id = await self._open(missing)

                async def keep(games: Sequence[MatchGame]) -> None:
                    await self._store(match_id, games)

                queue = PairQueue(missing.places, run.inference.max_batch_rows // 2)
                players = (player, opponent)
                await play_match(
                    run.game.name,
                    missing.openings,
                    players,
                    queue,
                    keep,
                    self._go,
                    self.context.clock_ahead,
                    self.context.in_play,
                )
            except CANNOT_PLAY as error:
                self._queue.leave_out(pairing)
                _log.error(
                    "pairing_left_out",
                    player=pairing.player,
                    opponent=pairing.opponent,
                    reason=str(error),
                )
        await self.rate()

    async def _open(self, missing: MissingGames) -> int:
        """The row of a pairing's match."""
        context = self.context
        match = await context.ask(
            context.database.open_match,
            context.run.name,
            "rating",
            missing.pairing.player,
            missing.pairing.opponent,
            games=2 * len(missing.openings),
            num_simulations=context.run.rating.num_simulations,
            seed=missing.seed,
            epoch=context.epoch,
        )
        return match.match_id

    async def _store(self, match_id: int, games: Sequence[MatchGame]) -> None:
        await self.context.record(match_id, games)
        self._figures.rating_games += len(games)
        self._figures.rating_player_games += len(games)
