"""What is played while no candidate waits: one duty after the other, paused in mid-game."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator, Mapping, Sequence
from typing import Protocol

_IDLE_SECONDS = 1.0


class Duty(Protocol):
    """Games that somebody wants, but nobody waits for."""

    @property
    def games_played(self) -> int:
        """Stored by this process."""
        ...

    @property
    def figures(self) -> Mapping[str, float]:
        """For the heartbeat."""
        ...

    @property
    def at_play(self) -> bool:
        """Whether games are in play, be it that they wait for a candidate's match."""
        ...

    async def play_some(self) -> bool:
        """Play what is due first; False when nothing is."""
        ...


class SpareTime:
    """Plays the first duty that has something to play, again and again.

    Args:
        duties: the more urgent ones first.
        go: cleared while a candidate is judged: their games wait where they are.
    """

    def __init__(self, duties: Sequence[Duty], go: asyncio.Event) -> None:
        self._duties = duties
        self._go = go

    @property
    def at_play(self) -> bool:
        """Whether games of any duty are in play."""
        return any(duty.at_play for duty in self._duties)

    @property
    def games_played(self) -> int:
        """By all duties."""
        return sum(duty.games_played for duty in self._duties)

    @property
    def figures(self) -> dict[str, float]:
        """Of all duties."""
        return {name: value for duty in self._duties for name, value in duty.figures.items()}

    @contextlib.contextmanager
    def paused(self) -> Generator[None]:
        """A candidate goes first."""
        self._go.clear()
        try:
            yield
        finally:
            self._go.set()

    async def run(self) -> None:
        """Play until cancelled.

        Raises:
            StaleEpochError: another evaluator has taken over.
        """
        while True:
            await self._go.wait()
            if not await self._play_some():
                await asyncio.sleep(_IDLE_SECONDS)

    async def _play_some(self) -> bool:
        for duty in self._duties:
            if await duty.play_some():
                return True
        return False
