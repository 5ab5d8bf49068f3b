"""What visitors' searches may cost: simulations a minute of each, and few searches at once.

All pages search through this one place.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace

from services.dashboard.visitors import Allowance, Visitor
from zerofleet.client import (
    AsyncPlayer,
    PlayerDescription,
    Position,
    SearchTable,
)
from zerofleet.errors import OverloadedError, PermissionDeniedError
from zerofleet.rpc.codec import BEST

_WAIT_SECONDS = 10.0
_SIGN_SECONDS = 0.3  # a search tells how far it is: what it has made is not given back


@dataclass(slots=True)
class _Turn:
    made: int = 0
    """Simulations so far."""


@dataclass(frozen=True, slots=True)
class VisitorPlayer:
    """An ``AsyncPlayer`` as one visitor may use it; its errors, and two more.

    A search has one row at a time in inference's batches. So visitors have at most as many rows of
    a batch as ``everybody`` lets searches run, whatever they ask, and self-play has the others; and
    however fast those batches follow each other, they make no more simulations in a minute than
    ``everybody`` has.

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
        """See ``AsyncPlayer``; what an analysis that ends early leaves is given back."""
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
                    turn.made = table.simulations
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

        What was not made when it ends with an error, or early, is given back.
        """
        simulations = max(simulations, 1)
        self.visitor.allowance.take(simulations)
        try:
            self.everybody.take(simulations)
        except OverloadedError:
            self.visitor.allowance.give_back(simulations)
            raise
        turn = _Turn()
        try:
            async with contextlib.AsyncExitStack() as held:
                await self._wait(held)
                yield turn
        except BaseException:
            left = max(simulations - turn.made, 0)
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
