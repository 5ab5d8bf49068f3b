"""What visitors' searches may cost: simulations a minute of each, and few searches at once.

All pages search through this one place.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace

from zerofleet.client import (
    AsyncPlayer,
    PlayerDescription,
    Position,
    SearchTable,
)
from zerofleet.errors import OverloadedError, PermissionDeniedError, ZerofleetError
from zerofleet.rpc.codec import BEST
from zerofleet.services.dashboard.visitors import Allowance, Visitor

_WAIT_SECONDS = 10.0
_SIGN_SECONDS = 0.3  # between two tables of a search


class _Turn:
    """One search, and how many simulations it has made.

    Args:
        simulations: that were asked for.
        everybody: keeps the rate of the fastest search.
    """

    def __init__(self, simulations: int, everybody: Allowance) -> None:
        self._simulations = simulations
        self._everybody = everybody
        self._counted = 0
        self._counted_at: float | None = None
        self._has_table = False

    def begin(self) -> None:
        """Note that inference has the search from now on."""
        self._counted_at = self._everybody.now()

    def count(self, simulations: int) -> None:
        """Take the number of simulations from a table."""
        now, before = self._everybody.now(), self._counted_at
        # The time to the first table may be a model's loading time. Two tables that were read
        # together, because this process was busy, say nothing about the rate.
        if self._has_table and before is not None and now - before > _SIGN_SECONDS / 2:
            rate = (simulations - self._counted) / (now - before)
            self._everybody.fastest = max(rate, self._everybody.fastest or 0.0)
        self._counted, self._counted_at, self._has_table = simulations, now, True

    @property
    def counted(self) -> int:
        """Simulations of the last table."""
        return self._counted

    def at_most(self) -> int:
        """Simulations that the search can have made by now, at the highest rate seen so far."""
        if self._counted_at is None:
            return 0
        if self._everybody.fastest is None:
            return self._simulations
        since = (self._everybody.now() - self._counted_at) * self._everybody.fastest
        return min(self._counted + math.ceil(since), self._simulations)


@dataclass(frozen=True, slots=True)
class VisitorPlayer:
    """An ``AsyncPlayer`` as one visitor may use it; its errors, and two more.

    A search has one row at a time in inference's batches. So visitors have at most as many rows of
    a batch as ``everybody`` lets searches run, whatever they ask, and self-play has the others; and
    however fast those batches follow each other, they make no more simulations in a minute than
    ``everybody`` has. A search that its visitor ends early is charged for the time that it ran, at
    the highest rate seen so far: inference may have made that many simulations.

    Its methods also raise ``PermissionDeniedError``, where the visitor may look alone, and
    ``OverloadedError``, when its simulations are used up or others are searching; it says when it
    is possible again.
    """

    player: AsyncPlayer
    visitor: Visitor
    everybody: Allowance
    """Of all visitors together."""
    num_simulations: int
    """Of a search that does not say how many."""

    async def describe(self) -> PlayerDescription:
        """See ``AsyncPlayer``; no more simulations than the visitor may ask for."""
        said = await self.player.describe()
        allowed = min(self.visitor.allowance.per_minute, self.everybody.per_minute)
        most = min(said.max_simulations, allowed)
        return replace(said, num_simulations=min(said.num_simulations, most), max_simulations=most)

    async def search(
        self,
        position: Position = (),
        *,
        simulations: int | None = None,
        seed: int | None = None,
        game: str = "",
        version: int | str = BEST,
    ) -> SearchTable:
        """See ``AsyncPlayer``; it may take as long as it goes on."""
        analysis = self.analyze(
            position,
            every_seconds=_SIGN_SECONDS,
            simulations=simulations,
            seed=seed,
            game=game,
            version=version,
        )
        last: SearchTable | None = None
        async with contextlib.aclosing(analysis) as tables:
            async for table in tables:
                last = table
        assert last is not None  # a stream without a table ends with an error
        return last

    async def analyze(
        self,
        position: Position = (),
        *,
        every_simulations: int = 0,
        every_seconds: float = 0.0,
        simulations: int | None = None,
        seed: int | None = None,
        game: str = "",
        version: int | str = BEST,
    ) -> AsyncGenerator[SearchTable]:
        """See ``AsyncPlayer``; what an analysis that ends early cannot have made is given back."""
        asked = self._asked(simulations)
        async with self._turn(asked) as turn:
            analysis = self.player.analyze(
                position,
                every_simulations=every_simulations,
                every_seconds=every_seconds,
                simulations=asked,
                seed=seed,
                game=game,
                version=version,
            )
            async with contextlib.aclosing(analysis) as tables:
                async for table in tables:
                    turn.count(table.simulations)
                    yield table

    def _asked(self, simulations: int | None) -> int:
        if not self.visitor.may_search:
            raise PermissionDeniedError(
                f"the role {self.visitor.role} may look alone: log in with the token of a client "
                "to play and analyse"
            )
        return self.num_simulations if simulations is None else simulations

    @contextlib.asynccontextmanager
    async def _turn(self, simulations: int) -> AsyncGenerator[_Turn]:
        """The visitor's and everybody's turn, for a search of so many simulations.

        If inference fails, the visitor pays for what the last table shows. If the visitor ends the
        search early, it pays for all that inference can have made since.
        """
        simulations = max(simulations, 1)
        self.visitor.allowance.take(simulations)
        try:
            self.everybody.take(simulations)
        except OverloadedError:
            self.visitor.allowance.give_back(simulations)
            raise
        turn = _Turn(simulations, self.everybody)
        try:
            async with contextlib.AsyncExitStack() as held:
                await self._wait(held)
                turn.begin()
                yield turn
        except BaseException as error:
            made = turn.counted if isinstance(error, ZerofleetError) else turn.at_most()
            left = max(simulations - made, 0)
            self.visitor.allowance.give_back(left)
            self.everybody.give_back(left)
            raise

    async def _wait(self, held: contextlib.AsyncExitStack) -> None:
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await held.enter_async_context(self.visitor.allowance.turns)
                await held.enter_async_context(self.everybody.turns)
        except TimeoutError as error:
            raise OverloadedError(
                "inference searches for other visitors, as many as it does at once: try again "
                f"in {_WAIT_SECONDS:g} s"
            ) from error
