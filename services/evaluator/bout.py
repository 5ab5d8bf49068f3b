"""Games of one pairing of the rating pool."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from services.evaluator.anchors import SEARCH, anchor_player
from services.evaluator.board import Board
from services.evaluator.duel import duel
from services.evaluator.pairings import Pairing
from services.evaluator.players import NoNetwork, SearchPlayer
from services.evaluator.record import match_record, played_record
from services.evaluator.roster import Place, Roster
from services.evaluator.table import Played, Table
from zerofleet.config import RunConfig
from zerofleet.prediction import Predictor
from zerofleet.records import GameRecord
from zerofleet.searches import match_search


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished game; at (opening, 0) the pairing's player moved first."""

    place: Place
    record: GameRecord
    remark: str | None = None  # why it ended before the rules ended it


Keep: TypeAlias = Callable[[Sequence[Finished]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Hall:
    """What the pairings at play share."""

    predictors: Mapping[str, Predictor]  # of models, by name
    go: asyncio.Event  # while it is not set, nobody is asked
    thinking: asyncio.Semaphore  # how many programs from outside may choose a move at once


class Bout:
    """A pairing at play.

    Args:
        run: the run.
        pairing: who plays.
        openings: of its games.
        hall: shared with the other pairings.
    """

    def __init__(
        self, run: RunConfig, pairing: Pairing, openings: Sequence[Sequence[int]], hall: Hall
    ) -> None:
        self._run = run
        self._game = run.game.name
        self._pairing = pairing
        self._openings = openings
        self._hall = hall
        self._search = match_search(run.search, run.rating.num_simulations)
        self._rows = run.inference.max_batch_rows

    async def play(self, places: Collection[Place], keep: Keep) -> None:
        """Play games and hand them over as they finish.

        Raises:
            IncompatibleModelError: a model cannot be used.
            EngineGoneError, GtpError: a program from outside does not play.
        """
        started_at = datetime.now(UTC)
        if self._pairing.opponent in self._hall.predictors or self._pairing.opponent == SEARCH:
            await self._match(places, keep, started_at)
        else:
            await self._duel(places, keep, started_at)

    async def _match(self, places: Collection[Place], keep: Keep, started_at: datetime) -> None:
        """Both players are the same search behind a predictor, so one engine plays for both."""

        async def record(played: list[Played]) -> None:
            now = datetime.now(UTC)
            games: list[Finished] = []
            for each in played:
                versions = self._pairing.versions(each.place[1])
                whole = match_record(self._game, each.game, versions, started_at, now)
                games.append(Finished(each.place, whole))
            await keep(games)

        predictors = self._hall.predictors
        opponent = predictors.get(self._pairing.opponent) or NoNetwork(self._game)
        sides = (predictors[self._pairing.player], opponent)
        roster = Roster(places, self._rows // 2)
        await Table(self._game, self._openings, self._search, sides, roster, record).play()

    async def _duel(self, places: Collection[Place], keep: Keep, started_at: datetime) -> None:
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

        predictor = self._hall.predictors[self._pairing.player]
        model = SearchPlayer(self._game, predictor, self._search, self._rows)
        seed = self._pairing.seed(self._run.seed)
        async with AsyncExitStack() as programs:
            anchor = anchor_player(
                self._pairing.opponent, self._game, seed, programs, self._hall.thinking
            )
            players = (model, anchor)
            await duel(self._game, self._openings, places, players, record, self._hall.go)
