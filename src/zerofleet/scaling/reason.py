"""What is asked for of one kind of process, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why so many; also a label of metrics."""

    GREW = "grew"
    SHRANK = "shrank"
    ENOUGH = "enough"
    SURPLUS = "surplus"
    """Fewer would do, but not for long enough yet."""
    INFERENCE = "inference"
    """More are wanted, but inference could not feed them."""
    STARTING = "starting"
    """More are wanted than those that have come up let one judge."""
    AT_MOST = "at_most"
    AT_LEAST = "at_least"
    HELD = "held"
    """Figures are missing."""

    @property
    def words(self) -> str:
        """In a sentence."""
        return self.value.replace("_", " its ")


@dataclass(frozen=True, slots=True)
class Answer:
    """Replicas that are asked for."""

    count: int
    before: int
    """What was asked for at the look before."""
    reason: Reason
    words: str

    @property
    def text(self) -> str:
        """Such as ``12 -> 18: reuse 6.1 of 4.0, fill 0.31, wait/compute 0.2``."""
        counts = f"{self.before} -> {self.count}" if self.count != self.before else f"{self.count}"
        return f"{counts}: {self.words}"


def whole(replicas: float) -> int:
    """Rounded up, but for what is only a rounding error above a whole number."""
    return math.ceil(replicas - 1e-6)


def within(least: int, count: int, most: int) -> int:
    """The nearest number inside the bounds."""
    return max(least, min(count, most))
