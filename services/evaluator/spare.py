"""Spare time, between the gate's matches: other games are played, and wait while one is on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator, Sequence
from typing import Protocol

_IDLE_SECONDS = 1.0


class SpareGames(Protocol):
    """Games that are played while no candidate waits."""

    @property
    def in_play(self) -> bool:
        """Whether games are in play, also while they wait for a candidate's match."""
        ...

    async def play_some(self) -> bool:
        """Play what is due first; False when nothing is."""
        ...


class SpareTime:
    """Plays games of several kinds in turns: each time the most urgent kind that has some due.

    Args:
        kinds: the more urgent ones first.
        go: cleared while a candidate is judged: their games wait where they are.
    """

    def __init__(self, kinds: Sequence[SpareGames], go: asyncio.Event) -> None:
        self._kinds = kinds
        self._go = go
        self._nothing_due = asyncio.Event()
        self._look_again = asyncio.Event()

    @property
    def in_play(self) -> bool:
        """Whether games of any kind are in play."""
        return any(games.in_play for games in self._kinds)

    @contextlib.contextmanager
    def paused(self) -> Generator[None]:
        """While this is entered, the games in play wait: a candidate is judged."""
        self._go.clear()
        try:
            yield
        finally:
            self._go.set()

    async def play_on(self, seconds: float) -> None:
        """Have games played for so long, though a candidate may wait; less when none are due."""
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
        for games in self._kinds:
            if await games.play_some():
                return True
        return False
