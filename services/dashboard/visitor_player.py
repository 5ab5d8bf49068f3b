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
    PlayedAction,
    PlayerDescription,
    Position,
    PositionPrediction,
    SearchTable,
)
from zerofleet.errors import OverloadedError, PermissionDeniedError, ZerofleetError
from zerofleet.rpc.codec import BEST

_WAIT_SECONDS = 10.0


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

    async def predict(
        self, position: Position = (), *, game: str = "", version: int | str = BEST
    ) -> PositionPrediction:
        """See ``AsyncPlayer``; a visitor who may look alone may ask it, too."""
        async with self._turn(1):
            return await self.player.predict(position, game=game, version=version)

    async def search(
        self,
        position: Position = (),
        *,
        simulations: int | None = None,
        seed: int | None = None,
        game: str = "",
        version: int | str = BEST,
    ) -> SearchTable:
        """See ``AsyncPlayer``."""
        asked = self._asked(simulations)
        async with self._turn(asked):
            return await self.player.search(
                position, simulations=asked, seed=seed, game=game, version=version
            )

    async def play(
        self,
        position: Position = (),
        *,
        temperature: float = 0.0,
        simulations: int | None = None,
        seed: int | None = None,
        game: str = "",
        version: int | str = BEST,
    ) -> PlayedAction:
        """See ``AsyncPlayer``."""
        asked = self._asked(simulations)
        async with self._turn(asked):
            return await self.player.play(
                position,
                temperature=temperature,
                simulations=asked,
                seed=seed,
                game=game,
                version=version,
            )

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
        asked, made = self._asked(simulations), 0
        async with self._turn(asked):
            analysis = self.player.analyze(
                position,
                every_simulations=every_simulations,
                every_seconds=every_seconds,
                simulations=asked,
                seed=seed,
                game=game,
                version=version,
            )
            try:
                async with contextlib.aclosing(analysis) as tables:
                    async for table in tables:
                        made = table.simulations
                        yield table
            except (GeneratorExit, asyncio.CancelledError):
                self._give_back(asked - made)
                raise

    def _asked(self, simulations: int | None) -> int:
        if not self.visitor.may_search:
            raise PermissionDeniedError(
                f"the role {self.visitor.role} may look alone: log in with the token of a client "
                "to play and analyse"
            )
        return self.num_simulations if simulations is None else simulations

    @contextlib.asynccontextmanager
    async def _turn(self, simulations: int) -> AsyncGenerator[None]:
        """The visitor's and everybody's turn, for a search of so many simulations."""
        simulations = max(simulations, 1)
        self.visitor.allowance.take(simulations)
        try:
            self.everybody.take(simulations)
        except OverloadedError:
            self.visitor.allowance.give_back(simulations)
            raise
        async with contextlib.AsyncExitStack() as held:
            try:
                async with asyncio.timeout(_WAIT_SECONDS):
                    await held.enter_async_context(self.visitor.allowance.turns)
                    await held.enter_async_context(self.everybody.turns)
            except TimeoutError as error:
                self._give_back(simulations)
                raise OverloadedError(
                    "inference searches for other visitors, as many as it does at once: try again "
                    f"in {_WAIT_SECONDS:g} s"
                ) from error
            except asyncio.CancelledError:
                self._give_back(simulations)
                raise
            try:
                yield
            except ZerofleetError:  # nothing was searched
                self._give_back(simulations)
                raise

    def _give_back(self, simulations: int) -> None:
        self.visitor.allowance.give_back(simulations)
        self.everybody.give_back(simulations)
