"""A clock and a heap: what happens when, in a simulation."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Events:
    """Runs what was planned, in the order of its time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()  # of equal times: first planned, first run

    def after(self, seconds: float, run: Callable[[], None]) -> None:
        """Plan something once."""
        heapq.heappush(self._heap, (self.now + seconds, next(self._order), run))

    def every(self, seconds: float, run: Callable[[], None]) -> None:
        """Plan something again and again, the first time after ``seconds``."""

        def again() -> None:
            run()
            self.after(seconds, again)

        self.after(seconds, again)

    def run(self, until: float) -> None:
        """Let time pass."""
        while self._heap and self._heap[0][0] <= until:
            self.now, _, run = heapq.heappop(self._heap)
            run()
        self.now = until
