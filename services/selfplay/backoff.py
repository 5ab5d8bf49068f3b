"""Waiting longer after each failure, with jitter, so that a fleet does not return in step."""

from __future__ import annotations

import asyncio
import random


class Backoff:
    """Delays that double from ``first`` to ``most`` seconds; each is drawn from its upper half."""

    def __init__(self, first: float = 0.1, most: float = 5.0) -> None:
        self._first = first
        self._most = most
        self._next = first

    async def sleep(self) -> None:
        """Wait for this failure's share."""
        delay = random.uniform(self._next / 2, self._next)
        self._next = min(2 * self._next, self._most)
        await asyncio.sleep(delay)

    def reset(self) -> None:
        """After a success the next failure waits ``first`` again."""
        self._next = self._first
