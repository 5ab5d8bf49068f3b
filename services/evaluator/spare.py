"""What is played beside the matches: one duty after the other, paused in mid-game."""

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
        self._nothing_due = asyncio.Event()
        self._look_again = asyncio.Event()

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

    async def play_on(self, seconds: float) -> None:
        """Let the duties play for so long, though a candidate may wait; less when none is due."""
        if seconds <= 0:
            return
        self._nothing_due.clear()
        self._look_again.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._nothing_due.wait()

    async def run(self) -> None:
        """Play until cancelled.

        Raises:
            StaleEpochError: another evaluator has taken over.
        """
        while True:
            await self._go.wait()
            if await self._play_some():
                continue
            self._nothing_due.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_IDLE_SECONDS):
                    await self._look_again.wait()
            self._look_again.clear()

    async def _play_some(self) -> bool:
        for duty in self._duties:
            if await duty.play_some():
                return True
        return False
