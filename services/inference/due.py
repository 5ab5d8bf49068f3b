"""When a running search shows its table."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Every:
    """When a running search shows its table; with neither, not before the end."""

    simulations: int | None
    seconds: float | None


class Due:
    """Counts from one table to the next."""

    def __init__(self, every: Every) -> None:
        self._every = every
        self._simulations = every.simulations or 0
        self._time = time.monotonic() + (every.seconds or 0.0)

    def time_passed(self) -> bool:
        """Whether it is worth looking at the simulations."""
        every = self._every
        if every.simulations is None and every.seconds is None:
            return False
        return every.seconds is None or time.monotonic() >= self._time

    def now(self, simulations: int) -> bool:
        """Whether a table is due; if so, the next one is counted from here."""
        if simulations < self._simulations:
            return False
        self._simulations = simulations + (self._every.simulations or 0)
        self._time = time.monotonic() + (self._every.seconds or 0.0)
        return True
