"""Games of one pairing of the rating pool."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from services.evaluator.anchors import SEARCH, anchor_player
from services.evaluator.board import Board
from services.evaluator.duel import duel
from services.evaluator.match import Place, Played, match_search, play
from services.evaluator.pairings import Pairing
from services.evaluator.players import NoNetwork, SearchPlayer
from services.evaluator.record import match_record, played_record
from zerofleet.config import RunConfig
from zerofleet.prediction import Prediction, Predictor
from zerofleet.records import GameRecord

MakePredictor: TypeAlias = Callable[[AsyncExitStack, int], Awaitable[Predictor]]


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished game; at (opening, 0) the pairing's player moved first."""

    place: Place
    record: GameRecord
    remark: str | None = None  # why it ended before the rules ended it


Keep: TypeAlias = Callable[[Sequence[Finished]], Awaitable[None]]


class Bout:
    """A pairing at play.

    Args:
        run: the run.
        pairing: who plays.
        openings: of its games.
        predictor: gives one version's predictor, over a stream that ends with the stack.
        go: while it is not set, no network is asked.
    """

    def __init__(
        self,
        run: RunConfig,
        pairing: Pairing,
        openings: Sequence[Sequence[int]],
        predictor: MakePredictor,
        go: asyncio.Event,
    ) -> None:
        self._run = run
        self._game = run.game.name
        self._pairing = pairing
        self._openings = openings
        self._predictor = predictor
        self._go = go
        self._search = match_search(run.search, run.rating.num_simulations)
        self._rows = run.inference.max_batch_rows

    async def play(self, places: Collection[Place], keep: Keep) -> None:
        """Play games and hand them over as they finish.

        Raises:
            IncompatibleModelError: a model cannot be used.
            EngineGoneError, GtpError: a program from outside does not play.
        """
        started_at = datetime.now(UTC)
        opponent = self._pairing.opponent
        async with AsyncExitStack() as stack:
            if opponent.isdecimal() or opponent == SEARCH:
                await self._match(stack, places, keep, started_at)
            else:
                await self._duel(stack, places, keep, started_at)

    async def _match(
        self, stack: AsyncExitStack, places: Collection[Place], keep: Keep, started_at: datetime
    ) -> None:
        """Both players are the same search behind a predictor, so one engine plays for both."""

        async def record(played: list[Played]) -> None:
            now = datetime.now(UTC)
            games: list[Finished] = []
            for each in played:
                versions = self._pairing.versions(each.place[1])
                whole = match_record(self._game, each.game, versions, started_at, now)
                games.append(Finished(each.place, whole))
            await keep(games)

        sides = await self._side(stack, self._pairing.player), await self._opponent(stack)
        await play(
            self._game, self._openings, places, self._search, sides, record, most_rows=self._rows
        )

    async def _duel(
        self, stack: AsyncExitStack, places: Collection[Place], keep: Keep, started_at: datetime
    ) -> None:
        """The opponent chooses one action at a time."""

        async def record(boards: list[Board]) -> None:
            times = started_at, datetime.now(UTC)
            games: list[Finished] = []
            for board in boards:
                versions = self._pairing.versions(board.place[1])
                assert board.ending is not None, "a board in play was kept"
                whole = played_record(self._game, board.plies, versions, board.ending, times)
                games.append(Finished(board.place, whole, board.remark))
            await keep(games)

        predictor = await self._side(stack, self._pairing.player)
        model = SearchPlayer(self._game, predictor, self._search, self._rows)
        seed = self._pairing.seed(self._run.seed)
        anchor = anchor_player(self._pairing.opponent, self._game, seed, stack)
        await duel(self._game, self._openings, places, (model, anchor), record, self._go)

    async def _side(self, stack: AsyncExitStack, player: str) -> Predictor:
        return _Pausing(await self._predictor(stack, int(player)), self._go)

    async def _opponent(self, stack: AsyncExitStack) -> Predictor:
        if self._pairing.opponent == SEARCH:
            return NoNetwork(self._game)
        return await self._side(stack, self._pairing.opponent)


class _Pausing:
    """A predictor that is not asked while ``go`` is not set."""

    def __init__(self, predictor: Predictor, go: asyncio.Event) -> None:
        self._predictor = predictor
        self._go = go

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        await self._go.wait()
        return await self._predictor.predict(observations)
