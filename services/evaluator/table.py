"""The games in play between two predictors, each side asking as fast as it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import numpy as np
from zerofleet_core import GameColumns, Match, SearchConfig

from services.evaluator.roster import Place, Roster
from services.evaluator.together import together
from zerofleet.prediction import Predictor
from zerofleet.service import first_of

CANDIDATE, BEST = 0, 1  # the sides of zerofleet_core.Match


@dataclass(frozen=True, slots=True)
class Played:
    """A finished game of a match."""

    place: Place
    game: GameColumns


@dataclass(frozen=True, slots=True, eq=False)
class _Seated:
    """Pairs that began together, and the engine that plays them."""

    openings: Sequence[int]
    engine: Match

    def finished(self) -> list[Played]:
        """The games that ended since the last call."""
        return [
            Played((self.openings[game.game_id // 2], game.game_id % 2), game)
            for game in self.engine.take_finished()
        ]


class Table:
    """Plays the pairs of a roster.

    Each side has one request out, with the leaves of all games in which it moves, and asks anew as
    soon as it is answered: a slow answer holds up nobody but the games that it is for. Pairs that
    begin later have engines of their own, and share the requests.

    Args:
        game: name of the game.
        openings: all openings of the match.
        search: of both sides.
        predictors: the candidate's and the best's.
        roster: which pairs begin when.
        keep: stores games; called by one at a time, and awaited before their seats are free.
    """

    def __init__(
        self,
        game: str,
        openings: Sequence[Sequence[int]],
        search: SearchConfig,
        predictors: tuple[Predictor, Predictor],
        roster: Roster,
        keep: Callable[[list[Played]], Awaitable[None]],
    ) -> None:
        self._game = game
        self._openings = openings
        self._search = search
        self._predictors = predictors
        self._roster = roster
        self._keep = keep
        self._keeping = asyncio.Lock()
        self._seated: list[_Seated] = []
        self._turns = (asyncio.Event(), asyncio.Event())  # by side: there may be something to ask

    async def play(self) -> None:
        """Play until every pair is played, or the roster is over."""
        self._seat()
        await first_of(
            self._roster.over.wait(), together(self._play_side(CANDIDATE), self._play_side(BEST))
        )

    async def _play_side(self, side: int) -> None:
        turn = self._turns[side]
        while self._roster.in_play:
            turn.clear()
            asked = await self._ask(side)
            await self._hand_in()
            if self._seated:
                self._turns[1 - side].set()  # the moves that were played are the other's to answer
            if not asked:
                await turn.wait()

    async def _ask(self, side: int) -> bool:
        """One request for all games in which this side moves; False when there is none."""
        parts = [(seated.engine, seated.engine.select(side)) for seated in self._seated]
        parts = [(engine, rows) for engine, rows in parts if len(rows) > 0]
        if not parts:
            return False
        answer = await self._predictors[side].predict(np.concatenate([rows for _, rows in parts]))
        end = 0
        for engine, rows in parts:
            start, end = end, end + len(rows)
            engine.backup(
                side, answer.policy_logits[start:end], answer.value[start:end], answer.model_version
            )
        return True

    async def _hand_in(self) -> None:
        """Store what is finished, then let others begin."""
        finished = [played for seated in self._seated for played in seated.finished()]
        if not finished:
            return
        self._seated = [seated for seated in self._seated if not seated.engine.done]
        # Half of a pair may be stored already: the other half cannot be played without it.
        wanted = [played for played in finished if played.place in self._roster.missing]
        async with self._keeping:
            if wanted and not self._roster.over.is_set():
                await self._keep(wanted)
        self._roster.hand_in([played.place for played in finished])
        self._seat()
        if not self._roster.in_play:
            self._wake()

    def _seat(self) -> None:
        openings = self._roster.begin()
        if openings:
            starts = [self._openings[opening] for opening in openings]
            self._seated.append(_Seated(openings, Match(self._game, starts, self._search, 0)))
            self._wake()

    def _wake(self) -> None:
        for turn in self._turns:
            turn.set()
